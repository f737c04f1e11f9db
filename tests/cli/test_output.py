import pytest

from ottla.cli.output import Json, print_table, put_bytes, record_fields, size_text
from ottla.records import Record


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (None, {"value": None}),
        (b"", {"value": ""}),
        ("ä".encode(), {"value": "ä"}),
        (b"\xff\x00", {"value_base64": "/wA="}),
    ],
)
def test_bytes_that_are_not_text_are_base64_in_a_field_of_their_own(
    data: bytes | None, fields: dict[str, Json]
) -> None:
    shown: dict[str, Json] = {}
    put_bytes(shown, "value", data)
    assert shown == fields


def test_header_names_that_are_not_text_are_base64_too() -> None:
    record = Record(
        3, 4, b"k", None, [("a", None), (b"\xff".decode("utf-8", "surrogateescape"), b"")]
    )
    assert record_fields(record) == {
        "offset": 3,
        "timestamp": 4,
        "key": "k",
        "value": None,
        "headers": [{"key": "a", "value": None}, {"key_base64": "/w==", "value": ""}],
    }


def test_a_table_in_a_pipe_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    print_table(("name", "count"), [(long, 1), ("[b]y[/b]", 20)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == [long, "1"]
    assert lines[3].split() == ["[b]y[/b]", "20"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e6, "2.0 MB"), (3.25e12, "3250.0 GB")],
)
def test_sizes_are_for_people(size: float, text: str) -> None:
    assert size_text(size) == text
