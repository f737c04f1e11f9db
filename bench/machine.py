"""The machine that figures were measured on, in words."""

import os
import platform
import re
import subprocess
from pathlib import Path

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


def describe(kafka_version: str, librdkafka_version: str) -> dict[str, str]:
    """Everything that a reader needs to judge the figures by."""
    java = subprocess.run(["java", "-version"], check=False, text=True, capture_output=True)
    model = cpu_model(Path("/proc/cpuinfo").read_text())
    return {
        "CPU": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory_gib(Path('/proc/meminfo').read_text())} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": java_version(java.stderr + java.stdout),
        "Apache Kafka": kafka_version,
        "client": f"librdkafka {librdkafka_version}",
    }
