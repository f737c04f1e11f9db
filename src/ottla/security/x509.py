"""What is needed of a certificate: its subject as Java writes it, its alternative names, its life.

A reader of DER for these fields alone, so that a login with a certificate needs no library beyond
Python's own. Pure.

Rules kept here:
1. The subject is RFC 2253 as Java's `X500Principal.getName()` gives it, most specific first:
   `CN=client,O=Ottla`. Only RFC 2253's nine keywords have names, all others are `OID=#hex`.
2. Bytes that are not DER raise ValueError; nothing is guessed.
"""

from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final, NamedTuple

_KEYWORDS: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O",
    "2.5.4.11": "OU", "2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
_TEXTS: Final = {
    0x0C: "utf-8", 0x12: "ascii", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "latin-1",
    0x1C: "utf-32-be", 0x1E: "utf-16-be",
}  # fmt: skip
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_DNS: Final = 0x82
_ADDRESS: Final = 0x87
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")


class Certificate(NamedTuple):
    """The fields that count here."""

    subject: str
    alternative_names: bytes
    """The extension as in the certificate, to be compared; empty where there is none."""
    not_before: datetime
    not_after: datetime


def parse_certificate(der: bytes) -> Certificate:
    """Read a certificate; raises ValueError."""
    try:
        return _parse(der)
    except (IndexError, UnicodeDecodeError) as problem:
        raise ValueError(f"malformed certificate: {problem}") from None


def host_names(certificate: Certificate) -> list[str]:
    """Its alternative names: DNS names and addresses; raises ValueError."""
    found = []
    if certificate.alternative_names:
        for tag, value in der_items(der_items(certificate.alternative_names)[0][1]):
            if tag == _DNS:
                found.append(value.decode("ascii"))
            elif tag == _ADDRESS:
                found.append(str(ip_address(value)))
    return found


def _parse(der: bytes) -> Certificate:
    outer = der_items(der)
    fields = der_items(der_items(outer[0][1])[0][1])
    if fields[0][0] == _VERSION:
        fields = fields[1:]
    # serial, signature algorithm, issuer, validity, subject, public key, then optional ones
    validity, subject = der_items(fields[3][1]), fields[4][1]
    names = b""
    for tag, value in fields[6:]:
        if tag == _EXTENSIONS:
            for _, extension in der_items(der_items(value)[0][1]):
                parts = der_items(extension)
                if parts[0][1] == _ALTERNATIVE_NAMES:
                    names = parts[-1][1]
    return Certificate(_name(subject), names, _time(*validity[0]), _time(*validity[1]))


def der_items(data: bytes) -> list[tuple[int, bytes]]:
    """The values that stand behind each other, by tag."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4:
                raise ValueError("malformed certificate: length")
            size = int.from_bytes(data[at : at + count])
            at += count
        if at + size > len(data):
            raise ValueError("malformed certificate: truncated")
        found.append((tag, data[at : at + size]))
        at += size
    return found


def _name(data: bytes) -> str:
    parts = []
    for _, relative in reversed(der_items(data)):
        pairs = []
        for _, pair in der_items(relative):
            (_, kind), (tag, value) = der_items(pair)
            pairs.append(_attribute(_oid(kind), tag, value))
        parts.append("+".join(pairs))
    return ",".join(parts)


def _attribute(oid: str, tag: int, value: bytes) -> str:
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or oid}=#{_der(tag, value).hex()}"
    return f"{keyword}={_escaped(value.decode(_TEXTS[tag]))}"


def _escaped(text: str) -> str:
    plain = "".join(f"\\{c}" if c in ',+"\\<>;' else c for c in text)
    if plain[:1] in ("#", " "):
        plain = f"\\{plain}"
    if len(text) > 1 and text.endswith(" "):
        plain = f"{plain[:-1]}\\ "
    return plain


def _der(tag: int, value: bytes) -> bytes:
    size = len(value)
    if size < 0x80:
        return bytes((tag, size)) + value
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + value


def _oid(data: bytes) -> str:
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _time(tag: int, value: bytes) -> datetime:
    text = value.decode("ascii")
    if tag == 0x17:  # UTCTime: two digits of the year, 1950 to 2049
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
