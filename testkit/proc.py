"""What a process tree has used, read from /proc: CPU time and resident memory.

A broker may work in child processes, so every figure is that of the whole tree: a live child is
counted by its own entry, a finished one by what its parent collected from it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """The part of /proc/PID/stat that is of use here; times in clock ticks."""

    parent: int
    user: int
    system: int
    children_user: int
    children_system: int

    @property
    def ticks(self) -> int:
        """All CPU time of the process and of the children it has waited for."""
        return self.user + self.system + self.children_user + self.children_system


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in bytes: now, and the most it has been."""

    resident: int
    peak: int

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(self.resident + other.resident, self.peak + other.peak)


def parse_stat(text: str) -> Stat:
    """The fields after the command, whose name may hold spaces and brackets itself."""
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(int(fields[1]), *(int(field) for field in fields[11:15]))


def parse_memory(text: str) -> Memory:
    """VmRSS and VmHWM of /proc/PID/status; a process on its way out has neither."""
    kilobytes = {"VmRSS": 0, "VmHWM": 0}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in kilobytes:
            kilobytes[name] = int(value.split()[0])
    return Memory(kilobytes["VmRSS"] * 1024, kilobytes["VmHWM"] * 1024)


def parse_busy(text: str) -> int:
    """Ticks that all cores of the machine were busy, from /proc/stat: all but idle and iowait.

    Guest time is left out, since user time includes it.
    """
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(field) for field in text.split("\n", 1)[0].split()[1:9]
    )
    return user + nice + system + irq + softirq + steal


def parse_stolen(text: str) -> int:
    """Ticks that this virtual machine wanted and its host gave to others, from /proc/stat."""
    return int(text.split("\n", 1)[0].split()[8])


def tree(root: int, stats: dict[int, Stat]) -> list[int]:
    """`root` and its descendants among the processes of `stats`."""
    members = [root] if root in stats else []
    for member in members:
        members.extend(pid for pid, stat in stats.items() if stat.parent == member)
    return members


def all_stats() -> dict[int, Stat]:
    """Every process there is now; one that ends while we look is left out."""
    stats = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = parse_stat((entry / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return stats


def holder(root: int, folder: Path) -> int | None:
    """The process of a tree that has files of a folder open, if there is one."""
    for member in tree(root, all_stats()):
        if any(path.is_relative_to(folder) for path in _open_files(member)):
            return member
    return None


def _open_files(pid: int) -> list[Path]:
    """What a process has open; what goes while we look is left out."""
    found = []
    try:
        for entry in (PROC / str(pid) / "fd").iterdir():
            try:
                found.append(entry.readlink())
            except FileNotFoundError:
                continue
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of a process tree so far."""
    stats = all_stats()
    return sum(stats[member].ticks for member in tree(pid, stats)) / TICKS_PER_SECOND


def busy_seconds() -> float:
    """CPU time that the whole machine has used so far."""
    return parse_busy((PROC / "stat").read_text()) / TICKS_PER_SECOND


def stolen_seconds() -> float:
    """CPU time that this machine wanted so far and did not get from its host."""
    return parse_stolen((PROC / "stat").read_text()) / TICKS_PER_SECOND


def memory(pid: int) -> Memory:
    """Resident memory of a process tree; the peaks of its members are added up."""
    total = Memory(0, 0)
    for member in tree(pid, all_stats()):
        try:
            total += parse_memory((PROC / str(member) / "status").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total
