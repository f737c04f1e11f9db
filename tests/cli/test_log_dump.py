"""`ottla log dump` on what a broker wrote, whole and damaged."""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.log import time_text
from ottla.client import Admin, Client, Producer
from ottla.embedded import Broker

from .conftest import Ottla

FIRST_SEGMENT = "00000000000000000000.log"
VALUE = b"cart " * 900


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A partition of three segments, 600 records in batches of five, as a broker leaves it."""
    data = tmp_path_factory.mktemp("data")
    with Broker(data=data) as broker, Client(broker.bootstrap_servers) as client:
        Admin(client).create_topic("t", partitions=1, settings={"segment.bytes": str(1 << 20)})
        with Producer(client, batch_bytes=20_000) as producer:
            for number in range(600):
                producer.send("t", VALUE, key=b"%d" % number, timestamp=1_000_000 + number)
    yield data / "t-0"
    shutil.rmtree(data)


@pytest.fixture
def partition(written: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "t-0"))


def batches(offline: Ottla, path: Path) -> list[dict[str, object]]:
    return [
        line for line in offline("log", "dump", str(path), "--json").json_lines if "count" in line
    ]


def problems(offline: Ottla, path: Path) -> list[str]:
    """What is found wrong, in text and in JSON alike."""
    ran = offline("log", "dump", str(path), "--json")
    found = [
        str(problem)
        for line in ran.json_lines
        if isinstance(line.get("problems"), list)
        for problem in line["problems"]  # type: ignore[attr-defined]  # a list, as just seen
    ]
    assert ran.status == int(bool(found))
    text = offline("log", "dump", str(path))
    assert text.status == ran.status
    for problem in found:
        assert f"PROBLEM {problem}\n" in text.out
    return found


def test_a_whole_partition_fits(offline: Ottla, partition: Path) -> None:
    assert len(list(partition.glob("*.log"))) == 3
    assert problems(offline, partition) == []
    found = batches(offline, partition)
    assert sum(int(str(batch["count"])) for batch in found) == 600
    assert found[0]["base_offset"] == 0
    assert found[-1]["last_offset"] == 599


def test_records_are_shown_when_asked_for(offline: Ottla, partition: Path) -> None:
    path = str(partition / FIRST_SEGMENT)
    line = offline("log", "dump", path, "--json", "--records").json_lines[0]
    assert isinstance(line["records"], list)
    assert line["records"][1]["key"] == "1"
    assert line["records"][1]["timestamp"] == 1_000_001
    shown = offline("log", "dump", path, "--records").out
    assert f'key "1"  value "{VALUE[:3].decode()}' in shown


def test_an_index_file_stands_for_its_segment(offline: Ottla, partition: Path) -> None:
    ran = offline("log", "dump", str((partition / FIRST_SEGMENT).with_suffix(".index")))
    assert ran.status == 0
    assert str(partition / FIRST_SEGMENT) in ran.out


def test_a_flipped_bit_is_reported_with_its_batchs_position(
    offline: Ottla, partition: Path
) -> None:
    log = partition / FIRST_SEGMENT
    whole = batches(offline, log)
    position = int(str(whole[3]["position"]))
    data = bytearray(log.read_bytes())
    data[position + 100] ^= 1
    log.write_bytes(data)
    assert problems(offline, log) == [f"{FIRST_SEGMENT}: position {position}: invalid CRC"]
    assert batches(offline, log) == whole[:3] + whole[4:]


def test_a_torn_end_is_reported(offline: Ottla, partition: Path) -> None:
    log = max(partition.glob("*.log"))
    last = batches(offline, log)[-1]
    log.write_bytes(log.read_bytes()[:-10])
    assert f"{log.name}: position {last['position']}: incomplete batch" in problems(offline, log)


@pytest.mark.parametrize(
    ("suffix", "entry", "change", "complaint"),
    [
        (".index", ">ii", (1, 0), "the batch there ends with offset"),
        (".index", ">ii", (0, 1), "no batch begins there"),
        (".timeindex", ">qi", (-1, 0), "the largest timestamp up to there is"),
    ],
)
def test_an_index_that_does_not_fit_is_reported(
    offline: Ottla,
    partition: Path,
    suffix: str,
    entry: str,
    change: tuple[int, int],
    complaint: str,
) -> None:
    index = (partition / FIRST_SEGMENT).with_suffix(suffix)
    data = bytearray(index.read_bytes())
    at = 2 * struct.calcsize(entry)
    first, second = struct.unpack_from(entry, data, at)
    struct.pack_into(entry, data, at, first + change[0], second + change[1])
    index.write_bytes(data)
    (found,) = problems(offline, partition)
    assert found.startswith(f"{index.name}: entry 2 (")
    assert complaint in found


def test_an_index_that_does_not_grow_is_reported(offline: Ottla, partition: Path) -> None:
    index = (partition / FIRST_SEGMENT).with_suffix(".index")
    data = index.read_bytes()
    index.write_bytes(data[:16] + data[:8])
    (found,) = problems(offline, partition)
    assert "entry 2" in found
    assert "it is not increasing" in found


def test_an_index_beyond_its_log_is_reported(offline: Ottla, partition: Path) -> None:
    index = (partition / FIRST_SEGMENT).with_suffix(".index")
    index.write_bytes(index.read_bytes() + struct.pack(">ii", 1 << 20, 1 << 30))
    (found,) = problems(offline, partition)
    assert "the log has no such batch" in found


def test_a_preallocated_index_is_fine_and_an_odd_size_is_not(
    offline: Ottla, partition: Path
) -> None:
    index = (partition / FIRST_SEGMENT).with_suffix(".timeindex")
    index.write_bytes(index.read_bytes() + bytes(1200))
    assert problems(offline, partition) == []
    index.write_bytes(index.read_bytes() + bytes(1))
    assert problems(offline, partition) == [f"{index.name}: its size is not a multiple of 12"]


def test_segments_that_overlap_are_reported(offline: Ottla, partition: Path) -> None:
    _, second, _ = sorted(partition.glob("*.log"))
    shutil.copy(second, partition / f"{int(second.stem) - 1:020}.log")
    found = problems(offline, partition)
    assert any("it begins before the end" in problem for problem in found)


@pytest.mark.parametrize("name", ["notes.txt", "x.log"])
def test_what_is_no_segment_is_refused(offline: Ottla, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("hello")
    ran = offline("log", "dump", str(tmp_path / name))
    assert ran.status == 1
    assert "is not a segment's .log file" in ran.err
    assert offline("log", "dump", str(tmp_path)).status == 1
    assert offline("log", "dump", str(tmp_path / "missing")).status == 2


def test_times_are_shown_in_utc_where_there_is_a_calendar() -> None:
    assert time_text(1_769_860_800_007) == "2026-01-31T12:00:00.007Z"
    assert time_text(-1) == "-1"
    assert time_text(2**63 - 1) == str(2**63 - 1)
