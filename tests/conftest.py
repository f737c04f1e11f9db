"""For all tests: what must not depend on how, and on how busy a machine, they are run.

Property tests are judged by what they find, not by how long it takes. A run in the background of a
shell has SIGINT ignored, and so would have every process that a test starts and interrupts.

`make test` runs a test that failed once more, as Kafka's own build does. The failure is shown, and
is a defect all the same; more than MOST_RERUNS of them fail the run.
"""

import signal

import pytest
from hypothesis import settings

MOST_RERUNS = 3
# Files that take longest, the longest first: a parallel run begins with them, so that at its end no
# process works alone at something long. Others follow in the order of their names.
LONGEST_FILES = (
    "tests/spark/pipeline/test_killed.py",
    "tests/spark/sink/test_faults.py",
    "tests/spark/pipeline/test_standalone.py",
    "tests/spark/pipeline/test_running.py",
    "tests/faults/test_faults_short_run.py",
    "tests/spark/sink/test_deaths.py",
    "tests/spark/pipeline/test_declarative.py",
    "tests/spark/pipeline/test_late.py",
    "tests/spark/sink/test_each_batch.py",
    "tests/spark/",
    "tests/stalls/",
    "tests/replication/",
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
    """Show why tests failed at their first attempt."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("_", f"failed once: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
