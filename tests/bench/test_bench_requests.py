"""The requests that the bench writes by hand, read by the broker's own code."""

import io
import struct

import pytest

from bench.flood import error_in, produce_request, record_batch
from bench.machine import cpu_model, is_quiet, java_version, memory_gib, python_build, rest
from ottla.wire.batch import crc_is_right, read_header
from testkit.kafka import JARS, pom
from testkit.probe import brokers_in, metadata_request, read_frame


def test_a_record_batch_is_valid_and_holds_what_was_asked_for() -> None:
    batch = record_batch(messages=100, size=200)
    header = read_header(memoryview(batch), 0)
    assert header.record_count == header.last_offset_delta + 1 == 100
    assert header.length == len(batch) - 12
    assert len(batch) > 100 * 200
    assert crc_is_right(memoryview(batch), header)


def test_a_produce_request_is_framed_and_names_its_partition() -> None:
    batch = record_batch(1, 10)
    request = produce_request("topic", 7, batch)
    length, key, version, correlation = struct.unpack_from(">ihhi", request)
    assert length == len(request) - 4
    assert (key, version, correlation) == (0, 7, 7)
    assert request.endswith(struct.pack(">iii", 1, 7, len(batch)) + batch)


def test_the_error_of_a_produce_answer_is_found_behind_the_topics_name() -> None:
    answer = struct.pack(">iih", 7, 1, 5) + b"topic" + struct.pack(">iihqqq", 1, 7, 6, 0, 0, 0)
    assert error_in(answer, "topic") == (7, 6)


def test_metadata_is_asked_about_no_topic() -> None:
    request = metadata_request(9)
    assert struct.unpack_from(">i", request) == (len(request) - 4,)
    assert request.endswith(b"bench" + struct.pack(">i", 0))


def test_an_answer_to_another_question_is_refused() -> None:
    assert brokers_in(struct.pack(">ii", 9, 3), 9) == 3
    with pytest.raises(ValueError, match="answer to 8"):
        brokers_in(struct.pack(">ii", 8, 3), 9)


def test_a_connection_that_ends_within_an_answer_is_an_error() -> None:
    assert read_frame(io.BytesIO(b"\0\0\0\2ok")) == b"ok"
    with pytest.raises(ConnectionResetError):
        read_frame(io.BytesIO(b"\0\0\0\5ok"))


def test_the_maven_project_pins_every_version() -> None:
    assert all(f"<version>{version}</version>" in pom() for _, _, version in JARS)
    assert pom().count("<dependency>") == len(JARS)


def test_the_machine_is_described_from_what_the_kernel_says() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n") == "Some CPU @ 2 GHz"
    assert memory_gib("MemTotal:       24681472 kB\nMemFree: 1 kB\n") == 24
    assert java_version('openjdk version "17.0.15" 2025-04-15\n') == "17.0.15"
    assert python_build("3.11.2", "'--enable-optimizations'") == "3.11.2, built with optimizations"
    assert python_build("3.11.7", None) == "3.11.7"


def test_one_busy_moment_does_not_make_a_machine_busy() -> None:
    assert is_quiet([0.1, 0.1, 2.0])
    assert not is_quiet([0.1, 1.0, 2.0])
    assert rest([0.1, 0.2, 2.0]) == "0.2 cores busy (median), 2.0 at most"
