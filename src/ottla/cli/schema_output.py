"""Records whose values are decoded by a schema registry before they are written.

A value that cannot be decoded is written as it is; a line on stderr says why, once for each reason.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.record_output import Writer
from ottla.registry.decoding import Decoder, RegistryUnreachable, ValueDecodeError

if TYPE_CHECKING:
    from ottla.client.consumer import Batch
    from ottla.records import Record

MOST_REASONS = 20


def decoding_writer(writer: Writer, url: str) -> Writer:
    """A writer that gets values as JSON."""
    try:
        decoder = Decoder(url)
    except RegistryUnreachable as problem:
        raise click.UsageError(f"--schema-registry: {problem}.") from None
    shown: set[str] = set()

    def decoded(record: "Record") -> "Record":
        if record.value is None:
            return record
        try:
            return record._replace(value=decoder.decode(record.value))
        except ValueDecodeError as problem:
            reason = str(problem)
            if reason not in shown and len(shown) < MOST_REASONS:
                shown.add(reason)
                click.echo(f"ottla: offset {record.offset} is not decoded: {reason}", err=True)
            return record
        except RegistryUnreachable as problem:
            raise click.ClickException(str(problem)) from None

    def written(batches: "Sequence[Batch]") -> bytes:
        return writer(
            [batch._replace(records=[decoded(item) for item in batch.records]) for batch in batches]
        )

    return written
