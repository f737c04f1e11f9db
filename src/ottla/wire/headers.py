"""What stands before the body of a request and of a response.

Rules kept here:
1. A request of a flexible version has header version 2 (with tagged fields), others version 1.
2. A request whose key or version nobody knows still has a header that is understood, so that it
   can be answered: version 1, except for ApiVersions, whose later versions are all flexible.
3. The answer to ApiVersions has the short header (version 0) in every version: its reader does
   not know yet what the broker speaks.
4. The client id has a classic length in all header versions.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Final

import msgspec

from ottla.wire.apis import FIRST_FLEXIBLE, KAFKA_VERSIONS, ApiKey
from ottla.wire.fields import DecodeError, skip_tags

try:
    from ottla.wire.native import reading
except ImportError:  # There was no compiler at install.
    HeaderReader = None
else:
    HeaderReader = reading.HeaderReader

KEPT_FRAME_BYTES: Final = 2 << 20
"""A larger request is its handler's to keep: its buffer is not received into again. A smaller one
is copied where it is needed after the handler has returned."""

_REQUEST = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_CORRELATION_ID_NO_TAGS = Struct(">ix")
_LAST_VERSION = 0x7FFF

# Keyed by plain ints, since that is what a request has.
_FLEXIBLE_VERSIONS: dict[int, range] = {
    int(key): range(FIRST_FLEXIBLE[key], last + 1) for key, (_, last) in KAFKA_VERSIONS.items()
}
_FLEXIBLE_VERSIONS[int(ApiKey.API_VERSIONS)] = range(
    FIRST_FLEXIBLE[ApiKey.API_VERSIONS], _LAST_VERSION + 1
)


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """Who asks what, and where the rest of the request starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def is_flexible(api_key: int, api_version: int) -> bool:
    """True if a request of this version has the header with tagged fields."""
    return api_version in _FLEXIBLE_VERSIONS.get(api_key, ())


def pure_request_header(view: memoryview) -> RequestHeader:
    """Read the header at the start of a request (without its size)."""
    try:
        api_key, api_version, correlation_id, size = _REQUEST.unpack_from(view)
        body_at = 10
        client_id = None
        if size >= 0:
            body_at += size
            if body_at > len(view):
                raise DecodeError(f"a client id of {size} bytes in {len(view) - 10}")
            client_id = str(view[10:body_at], "utf-8")
        elif size < -1:
            raise DecodeError(f"a client id of {size} bytes")
        if api_version in _FLEXIBLE_VERSIONS.get(api_key, ()):
            body_at = skip_tags(view, body_at) if view[body_at] else body_at + 1
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise DecodeError(f"a request's header: {problem}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, body_at)


read_request_header: Callable[[memoryview], RequestHeader] = (
    pure_request_header
    if HeaderReader is None
    else HeaderReader(RequestHeader, _FLEXIBLE_VERSIONS).read
)


def write_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None = None
) -> bytes:
    """Return the header of a request (without its size)."""
    tags = b"\0" if is_flexible(api_key, api_version) else b""
    if client_id is None:
        return _REQUEST.pack(api_key, api_version, correlation_id, -1) + tags
    name = client_id.encode()
    return _REQUEST.pack(api_key, api_version, correlation_id, len(name)) + name + tags


def has_flexible_response_header(api_key: int, api_version: int) -> bool:
    """True if the response's header ends with tagged fields."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version)


def write_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Return the header of a response (without its size)."""
    if has_flexible_response_header(api_key, api_version):
        return _CORRELATION_ID_NO_TAGS.pack(correlation_id)
    return _CORRELATION_ID.pack(correlation_id)


def read_response_header(view: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return a response's correlation id, and where its body starts."""
    try:
        correlation_id: int = _CORRELATION_ID.unpack_from(view)[0]
        body_at = 4
        if has_flexible_response_header(api_key, api_version):
            body_at = skip_tags(view, body_at)
    except (error, IndexError) as problem:
        raise DecodeError(f"a response's header: {problem}") from None
    return correlation_id, body_at
