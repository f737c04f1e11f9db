"""Batches of a stream into topics by `foreachBatch`, each once.

Spark allows a Python sink no `outputMode("update")`, and `foreachBatch` any: the rows of each batch
are written by a batch write with a number (sinkId and batchId), which happens once.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark_ottla.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"
AT_LEAST_ONCE = "at-least-once"


def each_batch(options: Mapping[str, str]) -> "Callable[[DataFrame, int], None]":
    """What `foreachBatch` is to call; the options are those of the sink.

    Without the option sinkId the query's id is the sink's name, so a query with several sinks gives
    each a sinkId.
    """
    given = {name: str(value) for name, value in options.items()}
    lowered = {name.lower(): value for name, value in given.items()}
    is_once = lowered.get("guarantee", "").strip().lower() != AT_LEAST_ONCE

    def write(rows: "DataFrame", batch: int) -> None:
        numbered = {}
        if is_once:
            numbered["batchId"] = str(batch)
            if "sinkid" not in lowered:
                numbered["sinkId"] = _query_id(rows)
        rows.write.format("ottla").mode("append").options(**given, **numbered).save()

    return write


def _query_id(rows: "DataFrame") -> str:
    from pyspark.errors import PySparkException

    try:
        found = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except PySparkException:
        found = None  # Spark Connect has no context.
    if found is None:
        raise OptionError(
            "the option sinkId is missing: the query id is not known here. Set sinkId to a "
            "name that stays the same across restarts"
        )
    return found
