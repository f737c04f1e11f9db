"""Is this installation whole? A broker is started from it, written to and read from.

    python tools/check_install.py            # with the Python that Ottla is installed in

Run it with a wheel or a source distribution installed. It needs nothing but the package, and prints
how long each step took. `--without-native` accepts an installation that was built without a C
compiler, and wants the broker to say so.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS = 60.0


def main() -> int:
    """Check, and say what took how long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-native", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-check-") as folder:
        return _check(Path(folder), has_native=not arguments.without_native)


def _check(folder: Path, *, has_native: bool) -> int:
    began = time.monotonic()
    log = folder / "log"
    with log.open("wb") as output:
        broker = subprocess.Popen(
            _ottla("serve", "--port", "0", "--data", "data", "--set", "ottla.metrics.port=0"),
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        address = _address(log, broker)
        started = time.monotonic()
        sent = "one\ntwo\n"
        _run(folder, "produce", "t", "--bootstrap", address, text=sent)
        got = _run(
            folder, "consume", "t", "--from", "beginning", "--max", "2", "--bootstrap", address
        )
        ended = time.monotonic()
    finally:
        broker.terminate()
        broker.wait(SECONDS)
    said_no = "native: no" in log.read_text()
    if got != sent:
        print(f"sent {sent!r}, got {got!r}", file=sys.stderr)
        return 1
    if said_no == has_native:
        print(f"native modules: expected {has_native}, but: {log.read_text()}", file=sys.stderr)
        return 1
    print(
        f"started in {started - began:.1f} s, produced and consumed in {ended - started:.1f} s, "
        f"native: {'no' if said_no else 'yes'}"
    )
    return 0


def _ottla(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "ottla", *arguments]


def _run(folder: Path, *arguments: str, text: str = "") -> str:
    return subprocess.run(
        _ottla(*arguments),
        cwd=folder,
        input=text,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=SECONDS,
    ).stdout


def _address(log: Path, broker: "subprocess.Popen[bytes]") -> str:
    """Where the broker listens, once it says so."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and broker.poll() is None:
        for line in log.read_text().splitlines():
            if "broker started" in line:
                found: str = line.split("PLAINTEXT://", 1)[1].split('"', 1)[0].split()[0]
                return found
        time.sleep(0.02)
    raise SystemExit(f"the broker did not start: {log.read_text()}")


if __name__ == "__main__":
    sys.exit(main())
