"""TLS scanners that others wrote: sslyze and testssl.sh look at a broker with TLS.

Rules: sslyze has a place of its own in `.work` (its licence is the AGPL: never imported), and gets
installed there. testssl.sh is left out where it is not installed (Debian: testssl.sh). The broker
has a certificate of a test authority, which the scanners cannot trust.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from compat.checks import CheckError, check, expect
from testkit.certificates import Certificates
from testkit.process import BrokerProcess
from testkit.server import free_port

WORK = Path(__file__).parent / ".work"
SECONDS = 900
LET_PASS = (
    "certificate_path_validation",
    "maximum_certificate_lifespan",
    "tls_curves: TLS curves {'X448', 'secp521r1'} are supported",
    "tls_curves: TLS curves {'secp521r1', 'X448'} are supported",
)
"""What is of the test's certificate, and curves that are no weaker than those that Mozilla lists:
Python can choose them one by one only since 3.15."""
SEVERE = ("MEDIUM", "HIGH", "CRITICAL", "FATAL")


@contextmanager
def _secured() -> Iterator[str]:
    """A broker with a TLS listener beside the one that the harness asks."""
    with TemporaryDirectory() as folder:
        port = free_port()
        certificates = Certificates(Path(folder))
        broker = BrokerProcess(Path(folder) / "broker")
        broker.settings = {
            **certificates.broker_config(),
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SSL://127.0.0.1:{port}",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        with broker:
            yield f"127.0.0.1:{port}"


@check("scanners")
def sslyze_finds_what_Mozilla_calls_intermediate(_: BrokerProcess) -> str:  # noqa: N802 its name
    """All that sslyze finds, but for the certificate's authority."""
    place = WORK / "sslyze"
    program = place / "bin" / "sslyze"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "pip", "install", "-q", "sslyze"], check=True)
    with _secured() as where:
        said = _run([str(program), "--mozilla_config=intermediate", where])
    before, found, verdict = said.partition("COMPLIANCE AGAINST TLS CONFIGURATION")
    expect(bool(found), before[-2000:])
    problems = [line.strip() for line in verdict.splitlines() if line.strip().startswith("* ")]
    others = [line for line in problems if not line[2:].startswith(LET_PASS)]
    expect(not others, "\n".join(others))
    return "; ".join(problems) or "compliant"


@check("scanners")
def testssl_finds_nothing_of_medium_or_above(_: BrokerProcess) -> str:
    """Protocols, ciphers, forward secrecy and all the vulnerabilities it knows."""
    program = shutil.which("testssl") or shutil.which("testssl.sh")
    if program is None:
        return "left out: testssl.sh is not installed"
    with TemporaryDirectory() as folder, _secured() as where:
        report = Path(folder) / "found.json"
        _run(
            [program, "--quiet", "--color", "0", "--warnings", "off", "-p", "-s", "-f", "-U",
             "--jsonfile", str(report), where]
        )  # fmt: skip
        found = json.loads(report.read_text())
    severe = [f"{each['id']}: {each['finding']}" for each in found if each["severity"] in SEVERE]
    if severe:
        raise CheckError("\n".join(severe))
    return f"{len(found)} findings, none of MEDIUM or above"


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    return done.stdout + done.stderr
