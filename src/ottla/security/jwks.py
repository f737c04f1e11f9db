"""Reads the key set of OAUTHBEARER: at the start, then again and again, in a thread.

Rules kept here:
1. A key set that cannot be read leaves the keys that are known as they are, and is tried again with
   growing pauses.
2. A token with an unknown key makes it be read again soon, but not more than once in
   `LEAST_PAUSE_SECONDS`: a client cannot make the broker ask for it all the time.
3. Only https:// and file://; redirects to anything else are refused.
"""

from __future__ import annotations

import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import structlog

from ottla.security.jwt import Keys, import_jwt, parse_jwks

if TYPE_CHECKING:
    from ottla.security.listeners import OauthSettings

log = structlog.get_logger()

LARGEST_JWKS: Final = 1 << 20
READ_SECONDS: Final = 10.0
LEAST_PAUSE_SECONDS: Final = 5.0


class JwksReader:
    """Keeps `keys` up to date."""

    def __init__(self, settings: OauthSettings) -> None:
        import_jwt()
        assert settings.jwks_url is not None
        self._url = settings.jwks_url
        self._settings = settings
        self._wanted = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self.keys = Keys({}, self._wanted.set)

    def start(self) -> None:
        """Read it now, and begin to read it again."""
        self._thread = threading.Thread(target=self._run, name="jwks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading it."""
        self._stopped = True
        self._wanted.set()

    def _run(self) -> None:
        pause = self._settings.retry_ms / 1000
        while not self._stopped:
            if self._read():
                pause = self._settings.retry_ms / 1000
                wait = self._settings.refresh_ms / 1000
            else:
                wait = pause
                pause = min(2 * pause, self._settings.longest_retry_ms / 1000)
            self._wanted.clear()
            self._wanted.wait(wait)
            if self._wanted.is_set() and not self._stopped:
                threading.Event().wait(min(wait, LEAST_PAUSE_SECONDS) if self.keys.by_id else 0)

    def _read(self) -> bool:
        try:
            self.keys.by_id = parse_jwks(_text(self._url))
        except (OSError, ValueError) as problem:
            log.error("failed to read the JWKS of OAUTHBEARER", url=self._url, reason=str(problem))
            return False
        return True


def _text(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path)).read_text("utf-8")
    with urllib.request.build_opener(_NoDowngrade).open(url, timeout=READ_SECONDS) as answer:
        data: bytes = answer.read(LARGEST_JWKS + 1)
    if len(data) > LARGEST_JWKS:
        raise ValueError("it is too large")
    return data.decode("utf-8")


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https:// alone."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if not newurl.startswith("https://"):
            raise OSError("redirect to a URL that is not https://")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
