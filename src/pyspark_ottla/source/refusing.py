"""The reader of a stream that cannot be: it answers every question with what is wrong.

When streamReader() raises, Spark 4.3's process stumbles over the reader that it has not got, and
"cannot access local variable 'reader'" is what a user reads. So the reader is made, and refuses.
"""

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from pyspark_ottla.errors import OptionError


class RefusingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises what is wrong with its options, whichever question Spark asks first."""

    def __init__(self, problem: OptionError) -> None:
        self._problem = problem

    def _refuse(self) -> NoReturn:
        raise self._problem

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Refuse."""
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Refuse."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Refuse."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Refuse."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        """Refuse."""
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:
        """Refuse."""
        self._refuse()
