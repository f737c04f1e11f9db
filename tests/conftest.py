"""For all tests: what must not depend on how, and on how busy a machine, they are run.

Property tests are judged by what they find, not by how long it takes. A run in the background of a
shell has SIGINT ignored, and so would have every process that a test starts and interrupts.

`make test` runs a test that failed once more, as Kafka's own build does. The failure is shown, and
is a defect all the same; more than MOST_RERUNS of them fail the run.
"""

import signal
from collections import Counter, defaultdict
from itertools import chain

import pytest
from hypothesis import settings

MOST_RERUNS = 8
# Files that take longest, the longest first: a parallel run begins with them, so that at its end no
# process works alone at something long. Others follow in the order of their names.
LONGEST_FILES = (
    "tests/spark/pipeline/test_killed.py",
    "tests/spark/sink/test_faults.py",
    "tests/spark/pipeline/test_standalone.py",
    "tests/spark/pipeline/test_running.py",
    "tests/spark/pipeline/test_declarative.py",
    "tests/faults/test_faults_short_run.py",
    "tests/spark/source/test_bad_input.py",
    "tests/spark/source/test_stream.py",
    "tests/spark/sink/test_each_batch.py",
    "tests/spark/",
    "tests/replication/test_lost_disks.py",
    "tests/replication/test_older_store.py",
    "tests/stalls/",
    "tests/replication/",
    "tests/e2e/test_groups_clients.py",
    "tests/e2e/test_full_disk_restarts.py",
    "tests/e2e/test_exactly_once.py",
    "tests/tools/",
    "tests/metadata/",
    "tests/server/",
    "tests/e2e/",
)

settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which files a parallel run begins with (pytest-xdist, --no-loadscope-reorder).

    The tests of a file run in one process (--dist loadfile), for they share its fixtures. Every
    process has a Spark and a broker of its own, which its files share.
    """
    items.sort(key=_turn)  # a stable sort


def _turn(item: pytest.Item) -> int:
    file = item.path.relative_to(item.config.rootpath).as_posix()
    turns = (turn for turn, start in enumerate(LONGEST_FILES) if file.startswith(start))
    return next(turns, len(LONGEST_FILES))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which many tests passed at the second attempt only."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and len(reporter.stats.get("rerun", ())) > MOST_RERUNS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why tests failed at their first attempt, and what ran, by folder."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("_", f"failed once: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
    tests: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            folder = report.nodeid.partition("::")[0].rpartition("/")[0]
            seconds[folder] += report.duration
            tests[folder] += report.when == "call"
            skipped[folder] += report.skipped and report.when == "setup"
    if len(seconds) > 1:
        terminalreporter.write_sep("=", "what ran, and how long it took with its set-up")
        for folder, took in sorted(seconds.items()):
            left_out = f", {skipped[folder]} skipped" if skipped[folder] else ""
            terminalreporter.write_line(f"{took:7.1f} s  {folder}: {tests[folder]} tests{left_out}")
