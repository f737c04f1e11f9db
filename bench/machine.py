"""The machine that figures were measured on, in words."""

import os
import platform
import re
import subprocess
import sysconfig
from pathlib import Path
from statistics import median

# Busy cores, with nothing measured, up to which other work does not matter; an idle Kafka takes
# a few hundredths of one.
QUIET_CORES = 0.25
GIBIBYTE = 1 << 20  # /proc/meminfo counts in kB


def cpu_model(cpuinfo: str) -> str:
    """The processor's name from /proc/cpuinfo; some architectures have none there."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def memory_gib(meminfo: str) -> int:
    """All memory, from /proc/meminfo."""
    found = re.search(r"^MemTotal:\s*(\d+) kB$", meminfo, re.MULTILINE)
    if not found:
        raise ValueError("no MemTotal")
    return round(int(found[1]) / GIBIBYTE)


def java_version(said: str) -> str:
    """The version in what `java -version` says."""
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else "unknown"


def commit(folder: Path) -> str:
    """The commit that a checkout stands at, and whether its source differs from it."""
    git = ["git", "-C", str(folder.parent)]
    head = _said([*git, "rev-parse", "--short", "HEAD"])
    changed = _said([*git, "status", "--porcelain", "--", "src"])
    return f"{head or 'unknown'}{' with changes' if changed else ''}"


def python_build(version: str, configured: str | None) -> str:
    """The version, and that it was built to be fast where it says so (Debian's does not say)."""
    if "--enable-optimizations" in (configured or ""):
        return f"{version}, built with optimizations"
    return version


def rest(busy_cores: list[float]) -> str:
    """How quiet the machine was, from the cores that were busy while nothing was measured."""
    if not busy_cores:
        return "not looked at"
    return f"{median(busy_cores):.1f} cores busy (median), {max(busy_cores):.1f} at most"


def stolen(stolen_seconds: float, busy_seconds: float) -> str:
    """How much of the CPU time that a work wanted the machine's host gave to others."""
    return f"{stolen_seconds / max(busy_seconds, 0.01):.0%} of the CPU time"


def is_quiet(busy_cores: list[float]) -> bool:
    """Whether figures from this machine can be quoted."""
    return not busy_cores or median(busy_cores) <= QUIET_CORES


def describe(kafka_version: str, librdkafka_version: str) -> dict[str, str]:
    """Everything that a reader needs to judge the figures by."""
    model = cpu_model(Path("/proc/cpuinfo").read_text())
    return {
        "CPU": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory_gib(Path('/proc/meminfo').read_text())} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": python_build(platform.python_version(), sysconfig.get_config_var("CONFIG_ARGS")),
        "Java": java_version(_said(["java", "-version"])),
        "Apache Kafka": kafka_version,
        "Ottla": commit(Path(__file__).parent),
        "client": f"librdkafka {librdkafka_version}",
    }


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except FileNotFoundError:
        return ""
    return "" if done.returncode else done.stdout.strip()
