"""A broker starts without rich and without looking for garbage, and looks for it later."""

import subprocess
import sys
from pathlib import Path

PATIENCE_SECONDS = 60

WITHOUT_RICH = """
import gc, sys
from ottla.server.quick_start import quicken
quicken()
assert not gc.isenabled()
import ottla.server.run
assert "structlog" in sys.modules and "rich" not in sys.modules
import rich.console
"""

COLLECTS = """
import gc, os, signal, sys
from ottla.server.quick_start import quicken
quicken()
from ottla.server.run import run_broker

enable = gc.enable

def stop_once_garbage_is_collected():
    enable()
    os.kill(os.getpid(), signal.SIGTERM)

gc.enable = stop_once_garbage_is_collected
settings = {"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"}
sys.exit(run_broker(settings))
"""


def run(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr


def test_a_broker_does_without_rich_but_others_find_it() -> None:
    run(WITHOUT_RICH)


def test_garbage_is_collected_once_the_broker_runs(tmp_path: Path) -> None:
    run(COLLECTS, str(tmp_path))
