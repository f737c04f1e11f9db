"""What keeps a Parquet lake readable: it has no table that would refuse rows which do not fit.

Rules kept here:
1. A column keeps its type, as in Delta and Iceberg: files with two types for one column cannot be
   read together. Columns may be added and left out.
2. A lake stays divided by the same columns: Spark reads no folder that is divided in two ways.
3. Files are asked for their columns, not more than MOST_FILES of them, spread over the lake.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark_ottla.pipeline.lake.tables import must_be_divided, must_have_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

MOST_FILES = 1_000
SCHEME = re.compile("^[A-Za-z][A-Za-z0-9+.-]+:/+")
NOTHING_THERE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


def must_stay_readable(
    spark: "SparkSession", path: str, rows: "StructType", folders: Sequence[str]
) -> None:
    """PipelineError where rows do not fit the files that are in a folder."""
    from pyspark.errors import AnalysisException

    try:
        # They are URLs, as Spark tells them.
        files = sorted(map(unquote, spark.read.parquet(path).inputFiles()))
    except AnalysisException as wrong:
        if (wrong.getCondition() or "").startswith(NOTHING_THERE):
            return
        raise
    if not files:
        return
    inside = _plain(files[0])[len(_plain(path)) :].split("/")[:-1]
    must_be_divided(path, folders, [part.partition("=")[0] for part in inside if part])
    some = files[:: len(files) // MOST_FILES + 1]
    there = spark.read.option("mergeSchema", "true").parquet(*some).schema
    types = {field.name.lower(): field.dataType.simpleString() for field in there.fields}
    wanted = {
        field.name: field.dataType.simpleString()
        for field in rows.fields
        if field.name.lower() in types and field.name not in folders
    }
    must_have_types(path, wanted, {name: types[name.lower()] for name in wanted})


def _plain(place: str) -> str:
    return SCHEME.sub("/", place)
