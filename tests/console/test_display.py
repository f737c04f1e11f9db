"""What strangers wrote is shown as safe, bounded text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.console.context import templates
from ottla.console.display import (
    SHOWN_BYTES,
    count_text,
    safe_text,
    seconds_text,
    shown,
    size_text,
    time_text,
)
from ottla.console.paging import page_of
from ottla.console.safety import is_allowed_host, is_own_origin


def test_control_and_reordering_characters_become_visible() -> None:
    assert safe_text("a\x1b[31m\x00b\u202ec\u200bd") == "a\\x1b[31m\\x00b\\u202ec\\u200bd"
    assert safe_text("tab\tline\nžluťoučký 日本") == "tab\tline\nžluťoučký 日本"


@given(st.binary(max_size=300), st.sampled_from(["auto", "text", "json", "hex", "schema"]))
def test_any_bytes_can_be_shown(data: bytes, form: str) -> None:
    found = shown(data, form)
    assert found.size == len(data)
    assert found.text == safe_text(found.text)
    found.text.encode()


def test_a_value_is_read_as_what_it_is() -> None:
    assert shown(None).kind == "null"
    assert shown(b"hello").kind == "text"
    assert json.loads(shown(b'{"a": [1]}').text) == {"a": [1]}
    assert shown(b"\xff\xfe\x00\x01").kind == "hex"
    assert shown(b"\xffabc", "text").text == "\\xffabc"
    assert shown(b"[" * 100_000).kind == "text"
    assert shown(b"{nonsense", "json").note == "not JSON"


@pytest.mark.parametrize("form", ["auto", "text", "json", "hex"])
def test_a_huge_value_is_cut_and_that_is_said(form: str) -> None:
    found = shown(b"<script>" * 1_000_000, form)
    assert len(found.text) < 6 * SHOWN_BYTES
    assert found.size == 8_000_000
    if form != "json":
        assert "are shown" in found.note


def test_a_character_at_the_cut_does_not_make_text_binary() -> None:
    assert shown(b"a" + "č".encode() * SHOWN_BYTES).kind == "text"


def test_numbers_and_times() -> None:
    assert [count_text(n) for n in (None, 0, 1234567, 0.5, 12.0)] == [
        "–", "0", "1,234,567", "0.5", "12",
    ]  # fmt: skip
    assert [size_text(n) for n in (None, -1, 0, 2048, 5 << 40)] == [
        "–", "–", "0 B", "2.0 KiB", "5.0 TiB",
    ]  # fmt: skip
    assert time_text(1_750_000_000_123) == "2025-06-15 15:06:40.123"
    assert time_text(2**62) == f"{2**62} ms"
    assert [seconds_text(n) for n in (None, 1.25, 600, 2e5)] == ["–", "1.2 s", "10.0 min", "2.3 d"]


def test_templates_escape_and_make_visible() -> None:
    page = templates().from_string("<p>{{ text }}</p><a href='{{ text }}'>")
    found = page.render(text="<script>\x1b'")
    assert found == "<p>&lt;script&gt;\\x1b&#39;</p><a href='&lt;script&gt;\\x1b&#39;'>"


@pytest.mark.parametrize(
    ("total", "asked", "expected"),
    [(0, 1, (1, 1, 0, 0)), (120, 3, (3, 3, 101, 120)), (120, 99, (3, 3, 101, 120)),
     (120, -5, (1, 3, 1, 50))],
)  # fmt: skip
def test_a_page_of_a_list(total: int, asked: int, expected: tuple[int, ...]) -> None:
    page = page_of(list(range(total)), asked)
    assert (page.number, page.pages, page.first, page.last) == expected


@pytest.mark.parametrize(
    ("host", "allowed"),
    [("127.0.0.1:8080", True), ("[::1]:8080", True), ("10.1.2.3", True), ("localhost:1", True),
     ("Console.example:8080", True), ("evil.example:8080", False), ("", False),
     ("127.0.0.1.evil.example", False), ("localhost.evil.example", False)],
)  # fmt: skip
def test_hosts(host: str, allowed: bool) -> None:
    assert is_allowed_host(host, {"localhost", "console.example"}) is allowed


@pytest.mark.parametrize(
    ("headers", "own"),
    [({}, False),
     ({"origin": "http://127.0.0.1:8080"}, True),
     ({"origin": "http://127.0.0.1:9999"}, False),
     ({"origin": "http://evil.example"}, False),
     ({"origin": "null"}, False),
     ({"origin": "http://127.0.0.1:8080", "sec-fetch-site": "cross-site"}, False),
     ({"sec-fetch-site": "same-origin"}, True),
     ({"sec-fetch-site": "same-site"}, False),
     ({"sec-fetch-site": "none"}, False)],
)  # fmt: skip
def test_origins(headers: dict[str, Any], own: bool) -> None:
    assert is_own_origin({"host": "127.0.0.1:8080", **headers}) is own
