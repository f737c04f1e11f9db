"""For all tests: what must not depend on how, and on how busy a machine, they are run.

Property tests are judged by what they find, not by how long it takes. A run in the background of a
shell has SIGINT ignored, and so would have every process that a test starts and interrupts.
"""

import signal

import pytest
from hypothesis import settings

settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests stay together in one process of a parallel run (pytest-xdist, loadgroup).

    The tests of a file share its fixtures; all that use the fixture `spark` share one Spark.
    """
    for item in items:
        file = str(item.path.relative_to(item.config.rootpath))
        fixtures = getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("spark" if "spark" in fixtures else file))
