"""Who may ask, and what every answer carries.

Rules kept here:
1. The Host header must be an IP address, localhost, this machine's name or an allowed name: a page
   of a stranger whose name resolves to this address (DNS rebinding) has another one.
2. A writing request must come from a page of this console: its Origin is its own Host, or the
   browser says so (Sec-Fetch-Site). A request with neither is refused.
3. Every answer carries a strict Content-Security-Policy, forbids framing and guessing of types, and
   is not cached, but for static files.
"""

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SAFE_METHODS: Final = ("GET", "HEAD")
STATIC: Final = "/static/"


def host_name(header: str) -> str:
    """The name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower().rstrip(".")


def is_loopback(host: str) -> bool:
    """True where only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_allowed_host(header: str, allowed: Iterable[str]) -> bool:
    """Whether a Host header can be a browser's that was meant to come here."""
    name = host_name(header)
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name in allowed


def is_own_origin(headers: Mapping[str, str]) -> bool:
    """Whether a writing request comes from a page of this console."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site == "same-origin"
    scheme, found, host = origin.partition("://")
    return found != "" and scheme in ("http", "https") and host == headers.get("host")


class Guard:
    """The first part of the application: checks the host and the origin, adds headers."""

    def __init__(self, app: ASGIApp, allowed_hosts: Iterable[str]) -> None:
        self._app = app
        names = {"localhost", socket.gethostname().lower(), *map(str.lower, allowed_hosts)}
        self._allowed = frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        cached = request.url.path.startswith(STATIC)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers["cache-control"] = "max-age=3600" if cached else "no-store"
            await send(message)

        refusal = self._refusal(request)
        if refusal:
            answer = PlainTextResponse(f"{refusal}\n", 403)
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> str:
        if not is_allowed_host(request.headers.get("host", ""), self._allowed):
            return (
                "The console is not known by this host name. "
                "Start it with --allow-host NAME, or use its address."
            )
        if request.method not in SAFE_METHODS and not is_own_origin(request.headers):
            return "This request does not come from a page of the console."
        return ""
