"""One request as the pages see it: what was asked, whom to ask, and how to answer.

Rules kept here:
1. A page's handler runs in a thread and is synchronous; it answers with `render` or `redirect`.
2. Numbers in a query are bounded; what is not a number is a BadRequest, never a failure.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ottla.console.cluster import Cluster
from ottla.console.context import Console
from ottla.console.settings import Login

LARGEST_NUMBER: Final = 2**63 - 1


class BadRequest(Exception):  # noqa: N818 (it names what happened)
    """What was asked makes no sense; the text says why."""


class ConsoleCall:
    """One request."""

    def __init__(
        self,
        request: Request,
        console: Console,
        cluster: Cluster,
        user: str | None,
        form: Mapping[str, str],
    ) -> None:
        self.request = request
        self.console = console
        self.cluster = cluster
        self.user = user
        self.form = form

    @property
    def address(self) -> str:
        """Whose connection it is."""
        return self.request.client.host if self.request.client is not None else ""

    @property
    def is_known(self) -> bool:
        """Whether the page may tell of the cluster: nobody has to log in, or this user has."""
        return self.user is not None or self.console.settings.login is Login.NONE

    @property
    def query(self) -> QueryParams:
        """What the URL asks for."""
        return self.request.query_params

    def text(self, name: str, default: str = "") -> str:
        """A text of the query."""
        return self.query.get(name, default)

    def number(self, name: str, default: int, least: int = 0, most: int = LARGEST_NUMBER) -> int:
        """A number of the query, within bounds."""
        return number(self.query.get(name, ""), name, default, least, most)

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def here(self, **changes: object) -> str:
        """This page's URL with another query; None leaves a parameter out."""
        wanted = {**dict(self.query), **changes}
        query = urlencode({key: str(value) for key, value in wanted.items() if value is not None})
        path = self.request.url.path
        return f"{path}?{query}" if query else path

    def render(self, template: str, /, status: int = 200, **context: object) -> Response:
        """A page."""
        page = self.console.templates.get_template(template)
        text = page.render(
            call=self,
            settings=self.console.settings,
            path=self.request.url.path,
            **context,
        )
        return HTMLResponse(text.encode("utf-8", "backslashreplace"), status)

    def redirect(self, where: str, **query: object) -> Response:
        """Go elsewhere after a change, so that reloading does not repeat it."""
        return RedirectResponse(f"{where}?{urlencode(query)}" if query else where, 303)


def number(text: str, name: str, default: int, least: int = 0, most: int = LARGEST_NUMBER) -> int:
    """A number that someone typed, within bounds."""
    text = text.strip()
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise BadRequest(f"{name} must be a number")
    return min(max(int(text), least), most)
