"""Wall clocks that can be stepped, one for each broker.

Rules kept here:
1. A step moves CLOCK_REALTIME of one process (and its children) and no other clock, as NTP or a
   person does it to a machine. Brokers know nothing of this: a small library is preloaded.
2. The library is built with the C compiler where there is one; without it clocks are not stepped.
"""

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
STEP = struct.Struct("=q")
NANOSECONDS = 1_000_000_000


def build_library(folder: Path) -> Path | None:
    """The library to preload; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "clock.so"
    flags = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)
    return library


class Clock:
    """The wall clock of one broker."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        file.write_bytes(STEP.pack(0))
        self.environment = {"LD_PRELOAD": str(library), "FAULTS_CLOCK": str(file)}

    def step(self, seconds: float) -> None:
        """Set the clock to the true time plus so many seconds."""
        # In place: the file is mapped by the broker.
        with self._file.open("r+b") as file:
            file.write(STEP.pack(int(seconds * NANOSECONDS)))
