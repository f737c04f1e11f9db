"""The options of a sink as values that can be pickled: made once, used in every process."""

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ottla.client import ClientSettings
from ottla.records.compression import Codec
from pyspark_ottla.audit import AuditSettings, audit_settings
from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.settings import FormatSettings
from pyspark_ottla.options import Options, Use
from pyspark_ottla.sink.columns import Columns, columns_of
from pyspark_ottla.sink.recovery import Proof

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

BATCH_BYTES = 1_000_000
"""Of records in a batch, before compression: with its header it fits into the `max.message.bytes`
that topics have by default."""
TRANSACTION_TIMEOUT_MS = 900_000
"""Kafka's default of `transaction.max.timeout.ms`: no broker allows more unless configured to."""
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
OUTCOMES = {"fail": Proof.UNKNOWN, "committed": Proof.COMMITTED, "aborted": Proof.ABORTED}


class SinkSettings(Struct, frozen=True, kw_only=True):
    """How and where rows are written."""

    client: ClientSettings
    columns: Columns
    topic: str | None
    exactly_once: bool
    sink_id: str | None
    batch_id: int | None
    """The number of a batch that is written once, by `DataFrame.write`."""
    codec: Codec
    batch_bytes: int
    transaction_timeout_ms: int
    unknown_outcome: Proof
    """What a transaction counts as of which the log can tell nothing: UNKNOWN fails."""
    audit: AuditSettings | None
    format: FormatSettings | None
    """How values are encoded; None: they are bytes already."""


def sink_settings(schema: "StructType", given: "Mapping[str, str]", use: Use) -> SinkSettings:
    """Check the options and columns of a sink; raises OptionError."""
    options = Options(given, use)
    topic = options.text("topic")
    if topic == "":
        raise OptionError("option topic is empty")
    sink_id = options.text("sinkId")
    if sink_id is not None and not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", sink_id):
        raise OptionError(
            f"option sinkId is {sink_id!r}, but must be letters, digits, dots, - and _"
        )
    batch_id = options.number("batchId", least=0)
    kafka = options.kafka
    guarantee = options.choice("guarantee", (EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE)
    outcome = options.choice("unknownOutcome", tuple(OUTCOMES), "fail")
    if use is Use.BATCH_WRITE:
        _check_batch(options, guarantee)
    codecs = tuple(codec.name.lower() for codec in Codec)
    form = FormatSettings.of(options, () if topic is None else (topic,))
    columns = columns_of(schema, topic, of_format=form is not None)
    batch_bytes = kafka.number("batch.size", BATCH_BYTES, least=1)
    return SinkSettings(
        client=options.client_settings(),
        columns=columns,
        topic=topic,
        exactly_once=guarantee == EXACTLY_ONCE,
        sink_id=sink_id,
        batch_id=batch_id,
        codec=Codec[kafka.choice("compression.type", codecs, "none").upper()],
        batch_bytes=min(batch_bytes, kafka.number("max.request.size", batch_bytes, least=1)),
        transaction_timeout_ms=kafka.number(
            "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS, least=1
        ),
        unknown_outcome=OUTCOMES[outcome],
        audit=audit_settings(options, sink_id),
        format=form,
    )


def with_schema(settings: SinkSettings, schema: "StructType") -> SinkSettings:
    """The settings with the schema of the registry that rows are written by, which is registered
    where it has to be. OptionError.
    """
    if settings.format is None:
        return settings
    from pyspark_ottla.formats.writing import planned

    kind = schema.fields[settings.columns.value].dataType
    return replace(settings, format=planned(settings.format, kind))


def _check_batch(options: Options, guarantee: str) -> None:
    """Raise unless what makes a batch write idempotent is there as a whole, or not at all."""
    if options.text("batchId") is None:
        for name in ("sinkId", "unknownOutcome"):
            if options.text(name) is not None:
                raise OptionError(
                    f"option {name} needs the option batchId in DataFrame.write: the number of the "
                    "batch, as foreachBatch gives it"
                )
    elif options.text("sinkId") is None:
        raise OptionError(
            "option batchId needs the option sinkId: a name that this sink always has, and no other"
        )
    elif guarantee != EXACTLY_ONCE:
        raise OptionError(f"option batchId needs guarantee={EXACTLY_ONCE}")
