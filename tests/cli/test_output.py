import time

import click
import pytest

from ottla.cli.output import Json, column_widths, print_table, put_bytes, record_fields, size_text
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


PARTITIONS = [
    ("partition", "0", "1"),
    ("leader", "1", "2"),
    ("replicas", "1,2,3", "1,2,3"),
    ("in sync", "1,2,3", "1,2"),
    ("start offset", "0", "17"),
    ("end offset", "123456789", "18"),
]


def test_titles_and_cells_are_folded_at_spaces_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    titles, *rows = zip(*PARTITIONS, strict=True)
    print_table(titles, rows)
    printed = click.unstyle(capsys.readouterr().out)
    assert max(map(len, printed.splitlines())) <= 60
    for words in zip(*PARTITIONS, strict=True):
        assert set(" ".join(words).split()) <= set(printed.split())


def test_no_color_leaves_nothing_but_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    print_table(("name", "count"), [("a", 1)])
    assert "\x1b" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(("name", "count"), [("a", 1)])
    assert "\x1b" not in capsys.readouterr().out


def test_rows_that_are_folded_stand_under_the_same_titles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "24")
    print_table(
        ("name", "text", "count"),
        [("a", "some more words", 1), ("b", "few", 20), ("ü", "日本", 3), ("c", None, None)],
    )
    assert click.unstyle(capsys.readouterr().out).splitlines() == [
        "name   text        count",
        "────────────────────────",
        "a      some more       1",
        "       words",
        "b      few            20",
        "ü      日本            3",
        "c      -               -",
    ]


def test_a_table_of_thousands_of_rows_takes_no_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    titles = [column[0] for column in PARTITIONS]
    rows = [(number, 1, "1,2,3", "1,2,3", 0, number * 100) for number in range(9_000)]
    before = time.process_time()
    print_table(titles, rows)
    assert time.process_time() - before < 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["0", "1", "1,2,3", "1,2,3", "0", "0"]
    assert len(lines) == 9_002
    assert {len(line) for line in lines} == {len(lines[0])}


@pytest.mark.parametrize(
    ("columns", "available", "widths"),
    [
        (PARTITIONS, 200, [9, 6, 8, 7, 12, 10]),
        (PARTITIONS, 30, [9, 6, 8, 5, 6, 9]),
        ([("name", "x" * 30), ("text", "some words " * 5)], 50, [30, 17]),
        ([("name", "x" * 30), ("list", "1,2,3," * 10)], 50, [23, 24]),
        ([("name", "x" * 22), ("list", "1,2,3," * 10)], 50, [22, 25]),
        ([("name",), ("text",)], 50, [4, 4]),
    ],
)
def test_long_words_are_folded_last(
    columns: list[tuple[str, ...]], available: int, widths: list[int]
) -> None:
    assert column_widths(columns, available) == widths


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e6, "2.0 MB"), (3.25e12, "3250.0 GB")],
)
def test_sizes_are_for_people(size: float, text: str) -> None:
    assert size_text(size) == text
