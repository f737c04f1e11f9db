"""What Spark decides before it asks a format written in Python, changed for the format "ottla".

Spark refuses two things for any such format, whatever the format can do: a batch write in its
default mode ("error if exists"), and a stream with `outputMode("update")`. Its own Kafka sink takes
both. So where a driver's program imports this package:
1. `df.write.format("ottla").save()` appends, as with Spark's Kafka sink.
2. `outputMode("update")` writes its batches by `foreachBatch`, each once (`each_batch`).
Nothing else, and no other format, is changed. Spark Connect has writers of its own, which are left
as they are.
"""

from functools import wraps
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no stubs
from pyspark.sql.readwriter import DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamWriter

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FORMAT = "ottla"
NEW_ONLY = ("error", "errorifexists", "default")
"""What Spark calls its default mode."""
_CHANGED = "_ottla_changed"


def change_writers() -> None:
    """Let Spark's writers take what the format can do. Again is the same as once."""
    if not hasattr(DataFrameWriter, _CHANGED):
        setattr(DataFrameWriter, _CHANGED, True)
        DataFrameWriter.save = _saving(DataFrameWriter.save)  # type: ignore[method-assign]
        DataStreamWriter.start = _starting(DataStreamWriter.start)  # type: ignore[method-assign]


def _saving(save: Any) -> Any:
    @wraps(save)
    def saving(
        self: DataFrameWriter,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 (Spark's name)
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,  # noqa: N803 (Spark's name)
        **options: Any,
    ) -> None:
        if format is not None:
            self.format(format)
        if _is_ottla(self._jwrite):
            chosen = self._jwrite.curmode().name() if mode is None else mode
            if chosen.lower() in NEW_ONLY:
                mode = "append"
        save(self, path, None, mode, partitionBy, **options)

    return saving


def _starting(start: Any) -> Any:
    @wraps(start)
    def starting(
        self: DataStreamWriter,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 (Spark's name)
        outputMode: str | None = None,  # noqa: N803 (Spark's name)
        partitionBy: str | list[str] | None = None,  # noqa: N803 (Spark's name)
        queryName: str | None = None,  # noqa: N803 (Spark's name)
        **options: Any,
    ) -> "StreamingQuery":
        self.options(**options)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if _is_ottla(self._jwrite) and self._jwrite.outputMode().toString() == "Update":
            from pyspark_ottla.each_batch import each_batch

            self.foreachBatch(each_batch(_options(self)))
        started: StreamingQuery = start(self, path, None, None, partitionBy, queryName)
        return started

    return starting


def _is_ottla(writer: Any) -> bool:
    """Whether Spark's own writer has this format; a Spark that does not tell is left as it is."""
    try:
        return str(writer.source()).lower() == FORMAT
    except Py4JError:
        return False


def _options(writer: DataStreamWriter) -> dict[str, str]:
    """The options that were given for the sink, without Spark's own."""
    jvm = writer._spark._jvm
    assert jvm is not None
    found = jvm.scala.jdk.javaapi.CollectionConverters.asJava(writer._jwrite.extraOptions())
    own = ("checkpointlocation", "queryname")
    return {str(name): str(found[name]) for name in found if str(name).lower() not in own}
