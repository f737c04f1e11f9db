"""A small canvas that becomes a PNG: rectangles and one bitmap font. Pure.

Enough for a bar chart, without a plotting library: an image of palette colours, compressed by zlib.
"""

import zlib
from struct import pack

SIGNATURE = b"\x89PNG\r\n\x1a\n"
PALETTE_COLOUR = 3
BITS = 8
GLYPH_WIDTH = 5
GLYPH_HEIGHT = 7
ADVANCE = GLYPH_WIDTH + 1

Colour = tuple[int, int, int]

# Each glyph is 7 rows of 5 bits, the leftmost bit first; a row is written as two hex digits.
_GLYPHS = {
    " ": "00000000000000",
    "!": "04040404040004",
    "#": "0a0a1f0a1f0a0a",
    "(": "02040808080402",
    ")": "08040202020408",
    "+": "0004041f040400",
    ",": "00000000040408",
    "-": "0000001f000000",
    ".": "00000000000c0c",
    "/": "01010204081010",
    "0": "0e11131519110e",
    "1": "040c040404040e",
    "2": "0e11010204081f",
    "3": "1f02040201110e",
    "4": "02060a121f0202",
    "5": "1f101e0101110e",
    "6": "0608101e11110e",
    "7": "1f010204080808",
    "8": "0e11110e11110e",
    "9": "0e11110f01020c",
    ":": "000c0c000c0c00",
    ">": "10080402040810",
    "?": "0e110102040004",
    "A": "0e11111f111111",
    "B": "1e11111e11111e",
    "C": "0e11101010110e",
    "D": "1c12111111121c",
    "E": "1f10101e10101f",
    "F": "1f10101e101010",
    "G": "0e11101711110f",
    "H": "1111111f111111",
    "I": "0e04040404040e",
    "J": "0702020202120c",
    "K": "11121418141211",
    "L": "1010101010101f",
    "M": "111b1515111111",
    "N": "11111915131111",
    "O": "0e11111111110e",
    "P": "1e11111e101010",
    "Q": "0e11111115120d",
    "R": "1e11111e141211",
    "S": "0f10100e01011e",
    "T": "1f040404040404",
    "U": "1111111111110e",
    "V": "11111111110a04",
    "W": "1111111515150a",
    "X": "11110a040a1111",
    "Y": "1111110a040404",
    "Z": "1f01020408101f",
    "_": "0000000000001f",
}


def text_width(text: str, scale: int = 1) -> int:
    """How wide a text is drawn."""
    return len(text) * ADVANCE * scale


class Canvas:
    """An image of some colours; the first of them is its background."""

    def __init__(self, width: int, height: int, colours: list[Colour]) -> None:
        self.width = width
        self.height = height
        self._colours = colours
        self._rows = [bytearray(width) for _ in range(height)]

    def rectangle(self, left: int, top: int, width: int, height: int, colour: int) -> None:
        """Fill a rectangle; what lies outside the image is left out."""
        left, right = max(left, 0), min(left + width, self.width)
        if right > left:
            line = bytes([colour]) * (right - left)
            for row in self._rows[max(top, 0) : max(top + height, 0)]:
                row[left:right] = line

    def text(self, left: int, top: int, text: str, colour: int, scale: int = 1) -> None:
        """Draw a text in capitals; what the font lacks is a question mark."""
        for place, letter in enumerate(text.upper()):
            glyph = bytes.fromhex(_GLYPHS.get(letter, _GLYPHS["?"]))
            for down, bits in enumerate(glyph):
                for right in range(GLYPH_WIDTH):
                    if bits >> (GLYPH_WIDTH - 1 - right) & 1:
                        x = left + (place * ADVANCE + right) * scale
                        self.rectangle(x, top + down * scale, scale, scale, colour)

    def encode(self) -> bytes:
        """The image as a PNG file."""
        header = pack(">IIBBBBB", self.width, self.height, BITS, PALETTE_COLOUR, 0, 0, 0)
        palette = b"".join(bytes(colour) for colour in self._colours)
        pixels = zlib.compress(b"".join(b"\0" + row for row in self._rows), 9)
        chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", pixels), (b"IEND", b""))
        return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))
