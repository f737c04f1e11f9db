from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.making import Logs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """Opens the log `orders-3`."""
    opener = Logs(tmp_path / "orders-3")
    yield opener
    opener.close()
