"""What strangers wrote, as safe and bounded text (pure).

Rules kept here:
1. Control characters, and characters that reorder text, are shown as escapes (`\\x1b`, `\\u202e`).
   Markup is the templates' business: they escape everything.
2. Bytes that are not UTF-8 are shown in hexadecimal, or with escapes for the wrong ones.
3. Nothing longer than a limit is shown, whatever it is: what was cut is said.
"""

import json
import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

SHOWN_BYTES: Final = 4096
LARGEST_JSON: Final = 16
"""Values larger than this multiple of SHOWN_BYTES are shown without indentation."""
FORMATS: Final = ("auto", "text", "json", "hex", "schema")

_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff]"
)


class Shown(NamedTuple):
    """A value as it is shown: its text, how it was read, and what is to be said about it."""

    text: str
    kind: str
    size: int
    note: str = ""

    @property
    def cut(self) -> bool:
        """True where there is more than is shown."""
        return "shown" in self.note


NULL: Final = Shown("null", "null", 0)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def safe_text(text: str) -> str:
    """The text with what could disturb a terminal or a page made visible; lines and tabs stay."""
    return _UNSAFE.sub(_escape, text)


def shown(data: bytes | None, form: str = "auto", limit: int = SHOWN_BYTES) -> Shown:
    """Bytes in one of FORMATS (schema: as auto, by who decodes it first)."""
    if data is None:
        return NULL
    if form == "hex":
        return _hex(data, limit)
    if form in ("auto", "json", "schema"):
        found = _json(data, limit)
        if found is not None:
            return found
        if form == "json":
            return _text(data, limit)._replace(note="not JSON")
    if form != "text" and not _is_text(data[:limit], whole=len(data) <= limit):
        return _hex(data, limit)
    return _text(data, limit)


def _is_text(data: bytes, *, whole: bool) -> bool:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        # A character may be cut in two where the value is.
        return not whole and problem.start > len(data) - 4
    return len(_UNSAFE.findall(text)) * 10 <= len(text)


def _cut_note(size: int, limit: int) -> str:
    return f"the first {limit:,} of {size:,} bytes are shown" if size > limit else ""


def _text(data: bytes, limit: int) -> Shown:
    cut = data[:limit].decode("utf-8", "backslashreplace")
    return Shown(safe_text(cut), "text", len(data), _cut_note(len(data), limit))


def _hex(data: bytes, limit: int) -> Shown:
    limit = min(limit, 1024)
    lines = []
    for at in range(0, min(len(data), limit), 16):
        part = data[at : min(at + 16, limit)]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<47}  {letters}")
    return Shown("\n".join(lines), "hex", len(data), _cut_note(len(data), limit))


def _json(data: bytes, limit: int) -> Shown | None:
    if len(data) > LARGEST_JSON * limit or data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        text = json.dumps(json.loads(data), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    note = f"the first {limit:,} of {len(text):,} characters are shown" if len(text) > limit else ""
    return Shown(safe_text(text[:limit]), "JSON", len(data), note)


def one_line(text: str, limit: int = 120) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# Numbers and times ------------------------------------------------------------------------


def count_text(number: float | None) -> str:
    """A number with thousands separated; unknown is a dash."""
    if number is None:
        return "–"
    return f"{number:,.1f}" if number % 1 else f"{int(number):,}"


def size_text(size: float | None) -> str:
    """A number of bytes in the unit that fits."""
    if size is None or size < 0:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError


def time_text(timestamp_ms: int | None) -> str:
    """A record's timestamp in UTC; unknown is a dash."""
    if timestamp_ms is None or timestamp_ms < 0:
        return "–"
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{timestamp_ms % 1000:03d}"


def seconds_text(seconds: float | None) -> str:
    """A length of time in the unit that fits; unknown is a dash."""
    if seconds is None:
        return "–"
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s"
