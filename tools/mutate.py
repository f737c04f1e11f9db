"""`make mutate`: change the code a little, and see whether a test fails.

Rules kept here:
1. The tests run in a copy of the tree; the checkout is never changed.
2. The tests of a file are named in TESTS, fast ones first. They must pass as the code is.
   A run that takes much longer than that one is killed, and counts as noticed.
3. A survivor is a mutant that no test of its file notices. Those that behave as the original are
   named in tools/mutants_equivalent.txt, each with the reason, and are not run.
4. The exit status is 1 if there are survivors.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tools.mutations import Mutant, mutants

ROOT = Path(__file__).parent.parent
EQUIVALENT = ROOT / "tools" / "mutants_equivalent.txt"
COPIED = ("src", "testkit", "tests", "compat", "bench", "faults", "tools", "pyproject.toml")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.egg-info")
TIMES_LONGER = 3.0
SPARE_SECONDS = 20.0
MTIME_STEP = 2
"""Python takes a compiled file for current by its source's size and time in seconds."""

_METADATA = "src/ottla/metadata/"
_STORES = f"{_METADATA}stores/"
_REPLICATION = "src/ottla/replication/"
_BROKER = "src/ottla/broker/"
TESTS: dict[str, tuple[str, ...]] = {
    f"{_REPLICATION}replicas.py": (
        "tests/replication/test_replicas.py",
        "tests/replication/test_positions.py",
    ),
    f"{_REPLICATION}epochs.py": (
        "tests/replication/test_follower.py",
        "tests/replication/test_replicas.py",
    ),
    f"{_REPLICATION}follower.py": (
        "tests/replication/test_follower.py",
        "tests/broker/test_replica_fetcher.py",
    ),
    f"{_METADATA}controller.py": ("tests/metadata/test_controller.py",),
    f"{_METADATA}elections.py": (
        "tests/metadata/test_controller.py",
        "tests/metadata/test_elect_leaders.py",
    ),
    f"{_METADATA}elect_leaders.py": ("tests/metadata/test_elect_leaders.py",),
    f"{_METADATA}reassignments.py": (
        "tests/metadata/test_reassignments.py",
        "tests/metadata/test_controller.py",
    ),
    f"{_METADATA}internal_topics.py": ("tests/metadata/test_internal_topics.py",),
    f"{_METADATA}placement.py": ("tests/metadata/test_placement.py",),
    f"{_METADATA}topics.py": ("tests/metadata/test_topics.py", "tests/broker/test_topics.py"),
    f"{_METADATA}image.py": ("tests/metadata/test_image.py", "tests/metadata/test_topics.py"),
    f"{_METADATA}documents.py": ("tests/metadata/test_image.py", "tests/metadata/test_topics.py"),
    f"{_REPLICATION}lease.py": ("tests/broker/test_broker_lifecycle.py",),
    f"{_METADATA}store.py": ("tests/metadata/test_store_contract.py",),
    f"{_STORES}sqlite_": (
        "tests/metadata/test_sqlite_store.py",
        "tests/metadata/test_store_contract.py",
    ),
    f"{_STORES}zookeeper_address.py": ("tests/metadata/test_zookeeper_address.py",),
    f"{_STORES}zookeeper_mirror.py": (
        "tests/metadata/test_zookeeper_mirror.py",
        "tests/metadata/test_zookeeper_store.py",
    ),
    f"{_STORES}zookeeper_": (
        "tests/metadata/test_zookeeper_mirror.py",
        "tests/metadata/test_zookeeper_store.py",
        "tests/metadata/test_store_contract.py",
    ),
    f"{_BROKER}replication/leader_claims.py": (
        "tests/broker/test_claiming.py",
        "tests/replication/test_lost_disks.py",
    ),
    f"{_BROKER}replication/log_starts.py": (
        "tests/broker/test_log_start_reasons.py",
        "tests/replication/test_log_starts.py",
    ),
    f"{_BROKER}replication/older_epochs.py": ("tests/broker/test_older_epochs.py",),
    f"{_BROKER}replication/": (
        "tests/broker/test_carrying_out.py",
        "tests/broker/test_replica_fetcher.py",
        "tests/broker/test_follower_fetches.py",
        "tests/broker/test_cutting.py",
        "tests/broker/test_link.py",
        "tests/broker/test_peers.py",
        "tests/replication/test_failed_disk.py",
        "tests/replication/test_log_starts.py",
        "tests/replication/test_rules.py",
    ),
    f"{_BROKER}replicas/follower_fetches.py": ("tests/broker/test_follower_fetches.py",),
    f"{_BROKER}replicas/partition.py": (
        "tests/broker/test_partition.py",
        "tests/broker/test_partition_waiters.py",
        "tests/broker/test_carrying_out.py",
        "tests/broker/test_follower_fetches.py",
        "tests/broker/test_cutting.py",
        "tests/broker/test_full_disk.py",
        "tests/broker/test_flush_messages.py",
        "tests/broker/test_log_manager.py",
        "tests/broker/test_fetch_sessions.py",
        "tests/replication/test_rules.py",
    ),
    f"{_BROKER}metadata/broker_lifecycle.py": (
        "tests/broker/test_broker_lifecycle.py",
        "tests/broker/test_producer_id_manager.py",
    ),
    f"{_BROKER}metadata/stores.py": ("tests/broker/test_log_loader.py",),
    "src/ottla/log/follower_append.py": ("tests/log/test_replication.py",),
    "src/ottla/log/truncation.py": ("tests/log/test_replication.py",),
}
"""By file, or by the beginning of its path; the first that fits counts."""


@click.command()
@click.option("--file", "files", multiple=True, help="Only this file; may be repeated.")
@click.option("--since", help="Only lines that were changed since this revision.")
@click.option("--sample", type=int, help="Number of mutants, drawn at random.")
@click.option("--seed", type=int, default=1, show_default=True, help="Which sample.")
def main(files: Sequence[str], since: str | None, sample: int | None, seed: int) -> None:
    """Change the code a little, and see whether a test fails."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    equivalent = read_equivalent(EQUIVALENT.read_text())
    chosen = [
        mutant
        for path in files or covered()
        for mutant in mutants(path, (ROOT / path).read_text())
        if mutant.name not in equivalent
    ]
    if since is not None:
        changed = {path: changed_lines(path, since) for path in {one.path for one in chosen}}
        chosen = [mutant for mutant in chosen if mutant.line in changed[mutant.path]]
    if sample is not None and sample < len(chosen):
        kept = set(random.Random(seed).sample(range(len(chosen)), sample))
        chosen = [mutant for at, mutant in enumerate(chosen) if at in kept]
    console.print(f"{len(chosen)} mutants")
    with tempfile.TemporaryDirectory(prefix="ottla-mutate-") as folder:
        survivors = list(_survivors(Tree(Path(folder)), chosen, console))
    table = Table("file", "line", "change", "was", title="survivors")
    for mutant in survivors:
        table.add_row(mutant.path, str(mutant.line), mutant.what, mutant.text)
    if survivors:
        console.print(table, markup=False)
    console.print(f"{len(chosen)} mutants, {len(survivors)} survived")
    sys.exit(1 if survivors else 0)


def covered() -> list[str]:
    """All files that have tests in the table."""
    found = (path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py"))
    return sorted(path for path in found if tests_of(path) and not path.endswith("__init__.py"))


def tests_of(path: str) -> tuple[str, ...]:
    """The tests that must notice a mutant of a file."""
    return next((tests for prefix, tests in TESTS.items() if path.startswith(prefix)), ())


def read_equivalent(text: str) -> set[str]:
    """The names in the list: each is a line, and its reason is indented below it."""
    return {line for line in text.splitlines() if line and not line.startswith((" ", "#"))}


def changed_lines(path: str, since: str) -> set[int]:
    """The lines of a file that are not as they were at a revision."""
    command = ["git", "diff", "--unified=0", since, "--", path]
    diff = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines: set[int] = set()
    for start, count in re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", diff, re.MULTILINE):
        lines |= set(range(int(start), int(start) + int(count or 1)))
    return lines


class Tree:
    """A copy of the checkout, in which one file at a time is wrong."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=NOT_COPIED, symlinks=True)
            else:
                shutil.copy2(source, folder / name)
        self._mtime = int(time.time())

    def write(self, path: str, source: str) -> None:
        """Replace a file."""
        target = self._folder / path
        target.write_text(source)
        self._mtime += MTIME_STEP
        os.utime(target, (self._mtime, self._mtime))

    def passes(self, tests: Sequence[str], seconds: float | None = None) -> bool:
        """Whether these tests pass in time."""
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": str(self._folder / "src")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return process.wait(seconds) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                _kill_group(process.pid)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        pass


def _survivors(tree: Tree, chosen: Sequence[Mutant], console: Console) -> Iterator[Mutant]:
    seconds: dict[str, float] = {}
    for number, mutant in enumerate(chosen, 1):
        path, tests = mutant.path, tests_of(mutant.path)
        if not tests:
            raise click.ClickException(f"{path} has no tests in the table of tools/mutate.py")
        if path not in seconds:
            began = time.monotonic()
            if not tree.passes(tests):
                raise click.ClickException(f"the tests of {path} fail as it is: {' '.join(tests)}")
            seconds[path] = time.monotonic() - began
        tree.write(path, mutant.source)
        survived = tree.passes(tests, TIMES_LONGER * seconds[path] + SPARE_SECONDS)
        tree.write(path, (ROOT / path).read_text())
        outcome = "SURVIVED" if survived else "noticed"
        line = f"{number}/{len(chosen)} {outcome} {path}:{mutant.line} {mutant.what}: {mutant.text}"
        console.print(line, markup=False, soft_wrap=True)
        if survived:
            yield mutant


if __name__ == "__main__":
    main()
