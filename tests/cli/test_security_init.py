"""`ottla security init`, up to a broker that lets its admin in and nobody else."""

import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

from testkit.process import plain_environment
from testkit.server import free_port
from testkit.waiting import stretched

OTTLA = str(Path(sys.executable).with_name("ottla"))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [OTTLA, *arguments],
        cwd=folder,
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=stretched(60),
        check=False,
    )


def test_what_init_writes_is_a_broker_that_lets_its_admin_in(tmp_path: Path) -> None:
    port = free_port()
    made = run(tmp_path, "security", "init", "--port", str(port), "--host", "localhost")
    assert made.returncode == 0, made.stderr
    folder = tmp_path / "security"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    again = run(tmp_path, "security", "init")
    assert again.returncode == 2
    assert "exists" in again.stderr
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [OTTLA, "serve", "--config", "security/server.properties"],
            cwd=tmp_path, env=plain_environment(), stderr=log,
        )  # fmt: skip
    try:
        asked = ("topic", "list", "--bootstrap", f"localhost:{port}")
        deadline = time.monotonic() + stretched(60)
        while (
            said := run(tmp_path, *asked, "--command-config", "security/client.properties")
        ).returncode:
            assert time.monotonic() < deadline, said.stderr + (tmp_path / "log").read_text()
        assert run(tmp_path, *asked).returncode != 0
        password = next(
            line.partition('password="')[2].partition('"')[0]
            for line in (folder / "client.properties").read_text().splitlines()
            if line.startswith("sasl.jaas.config")
        )
        assert len(password) >= 32
        assert password not in (tmp_path / "log").read_text() + made.stdout
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(stretched(30))
