"""What the bench needs of the machine, and one line that says how to get what is missing."""

import os
import shutil
import subprocess
from pathlib import Path

from testkit.errors import HarnessError

# program or header -> Debian's package
PROGRAMS = {"java": "default-jre-headless", "mvn": "maven", "cc": "gcc libc6-dev"}
HEADER = Path("librdkafka/rdkafka.h")
HEADER_PACKAGE = "librdkafka-dev"
INCLUDES = [Path("/usr/include"), Path("/usr/local/include")]


def missing_packages(jars_are_there: bool) -> list[str]:
    """Debian's names of what is not installed."""
    wanted = {name: package for name, package in PROGRAMS.items() if name != "mvn"}
    if not jars_are_there:
        wanted = PROGRAMS
    packages = [package for name, package in wanted.items() if not shutil.which(name)]
    if not any((folder / HEADER).exists() for folder in INCLUDES):
        packages.append(HEADER_PACKAGE)
    return packages


def provide(jars_are_there: bool) -> None:
    """Installs what is missing where that is ours to do: as root, on Debian."""
    packages = " ".join(missing_packages(jars_are_there)).split()
    if not packages:
        return
    hint = f"the bench needs {', '.join(packages)}: apt-get install {' '.join(packages)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise HarnessError(hint)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", *step], check=False, env=environment, stdout=subprocess.DEVNULL
        )
        if done.returncode:
            raise HarnessError(hint)
