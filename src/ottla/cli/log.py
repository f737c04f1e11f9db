"""`ottla log`: what is in a partition's files."""

from collections.abc import Iterator
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.options import json_option
from ottla.cli.output import Json, record_fields

if TYPE_CHECKING:
    from ottla.cli.segment_check import SegmentCheck
    from ottla.log.segments.scan import Scanned

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COLUMNS = "{:>12}  {:>23}  {:>8}  {:>10}  {:<6}  {:<24}  {}"


@click.group("log")
def command() -> None:
    """Dump and check the log files of a partition.

    \b
    Example:
      ottla log dump ottla-data/events-0
    """


@command.command("dump")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--records", is_flag=True, help="Show the records of each batch.")
@json_option
def dump(path: Path, records: bool, as_json: bool) -> int:
    """Show and check the batches in PATH: a segment's .log file or a partition's folder.

    CRCs, offsets, .index and .timeindex are checked. Each problem is printed with its position;
    the exit status is then 1. The broker may be running; a batch that it is just writing looks
    incomplete. JSON is one object on each line: batches, then a summary of each segment.

    \b
    Example:
      ottla log dump --records ottla-data/events-0/00000000000000000000.log
    """
    from ottla.cli.segment_check import SegmentCheck

    problems = 0
    end: int | None = None
    for segment in segments(path):
        check = SegmentCheck(segment)
        if end is not None and check.base_offset < end:
            check.problems.append(
                f"{segment.name}: it begins before the end ({end}) of the segment before it"
            )
        show = _show_json if as_json else _show_text
        show(check, records)
        end = check.next_offset
        problems += len(check.problems)
    if problems:
        click.echo(f"ottla: {path}: {problems} problem{'s' * (problems > 1)} found", err=True)
    return int(problems > 0)


def segments(path: Path) -> list[Path]:
    """The segment files meant by a path, in the order of their offsets."""
    if path.is_dir():
        found = sorted(item for item in path.glob("*.log") if item.stem.isdigit())
        if not found:
            raise click.ClickException(f"{path} holds no segment (a file like {'0' * 20}.log)")
        return found
    log = path.with_suffix(".log")
    if path.suffix not in (".log", ".index", ".timeindex") or not log.stem.isdigit():
        raise click.ClickException(f"{path} is not a segment's .log file, nor a partition's folder")
    if not log.exists():
        raise click.ClickException(f"{log} does not exist")
    return [log]


def _show_text(check: "SegmentCheck", records: bool) -> None:
    click.echo(check.path)
    click.echo(
        COLUMNS.format("position", "offsets", "records", "bytes", "codec", "max timestamp", "")
    )
    for found in check.batches():
        header = found.header
        click.echo(
            COLUMNS.format(
                found.position,
                f"{header.base_offset}-{header.last_offset}",
                header.record_count,
                header.size,
                _codec(header.codec),
                time_text(header.max_timestamp),
                " ".join(_remarks(found)),
            ).rstrip()
        )
        if records:
            for record in _records(check, found):
                parts = (
                    f"{name} {dumps(value, ensure_ascii=False)}" for name, value in record.items()
                )
                click.echo(f"    {'  '.join(parts)}")
    for problem in check.problems:
        click.echo(f"PROBLEM {problem}")
    click.echo(
        f"batches: {check.batch_count}, records: {check.record_count}, bytes: {check.good_bytes}"
        + ("" if check.problems else "; no problems found")
    )


def _show_json(check: "SegmentCheck", records: bool) -> None:
    for found in check.batches():
        header = found.header
        batch: dict[str, Json] = {
            "segment": str(check.path),
            "position": found.position,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "count": header.record_count,
            "bytes": header.size,
            "leader_epoch": header.leader_epoch,
            "codec": _codec(header.codec),
            "base_timestamp": header.base_timestamp,
            "max_timestamp": header.max_timestamp,
            "log_append_time": header.is_log_append_time,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional,
            "control": header.is_control,
        }
        if records:
            batch["records"] = list(_records(check, found))
        click.echo(dumps(batch, ensure_ascii=False))
    click.echo(
        dumps(
            {
                "segment": str(check.path),
                "batches": check.batch_count,
                "records": check.record_count,
                "bytes": check.good_bytes,
                "problems": check.problems,
            },
            ensure_ascii=False,
        )
    )


def _records(check: "SegmentCheck", found: "Scanned") -> Iterator[dict[str, Json]]:
    from ottla.records import decode_batch
    from ottla.wire.errors import KafkaError

    try:
        for record in decode_batch(found.batch):
            if found.header.is_control:
                yield {"offset": record.offset, "marker": _marker(record.key or b"")}
            else:
                yield record_fields(record)
    except KafkaError as problem:
        check.problems.append(f"{check.path.name}: position {found.position}: {problem}")


def _marker(key: bytes) -> str:
    """What a control record says: its key is a version and a type, two bytes each."""
    kind = int.from_bytes(key[2:4], "big")
    return {0: "ABORT", 1: "COMMIT"}.get(kind, f"type {kind}")


def _remarks(found: "Scanned") -> Iterator[str]:
    header = found.header
    if header.leader_epoch > 0:
        yield f"epoch {header.leader_epoch}"
    if header.producer_id >= 0:
        yield f"producer {header.producer_id}/{header.producer_epoch}"
    if header.base_sequence >= 0:
        yield f"sequence {header.base_sequence}-{header.last_sequence}"
    if header.is_log_append_time:
        yield "LogAppendTime"
    if header.is_control:
        yield "control"
    elif header.is_transactional:
        yield "transactional"


def _codec(number: int) -> str:
    return CODECS[number] if number < len(CODECS) else f"codec {number}"


def time_text(timestamp: int) -> str:
    """A timestamp in milliseconds as UTC time; as a number where no calendar reaches."""
    try:
        at = datetime.fromtimestamp(timestamp // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    if timestamp < 0:
        return str(timestamp)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp % 1000:03}Z"
