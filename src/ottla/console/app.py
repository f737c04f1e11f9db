"""The application: routes, and how a handler's answer or failure becomes a page.

Rules kept here:
1. With `read_only` the routes that write do not exist.
2. A body is read up to a limit. What a cluster refuses is a page that says so; what was not
   foreseen is a page without details, and is logged.
3. A cluster that cannot be reached is a 503 that reloads itself, so the console comes back when the
   cluster does.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ottla.client import ConnectionFailed, KafkaError, NoBroker
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.cluster import Cluster
from ottla.console.context import Console
from ottla.console.login import COOKIE, Sessions, log_in, log_out, login_form
from ottla.console.pages import (
    access,
    audit,
    brokers,
    group,
    groups,
    history,
    message,
    messages,
    overview,
    pipelines,
    produce,
    reset,
    topic,
    topics,
    transactions,
)
from ottla.console.safety import SAFE_METHODS, Guard
from ottla.console.settings import Login
from ottla.wire.errors import ErrorCode
from ottla.wire.fields import EncodeError

log = structlog.get_logger()

LARGEST_FORM: Final = 2 << 20
RELOAD_SECONDS: Final = 3
STATIC_FOLDER: Final = Path(__file__).parent / "static"

Handler = Callable[[ConsoleCall], Response]

_NOT_FOUND: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_GROUP_ID,
)

READING: Final[dict[str, Handler]] = {
    "/": overview.show,
    "/brokers": brokers.show,
    "/brokers/{id:int}": brokers.show_one,
    "/topics": topics.show,
    "/topics/{topic}": topic.show,
    "/topics/{topic}/settings": topic.show_settings,
    "/topics/{topic}/messages": messages.show,
    "/topics/{topic}/message": message.show,
    "/topics/{topic}/value": message.download,
    "/groups": groups.show,
    "/group": group.show,
    "/transactions": transactions.show,
    "/pipelines": pipelines.show,
    "/access": access.show,
    "/audit": audit.show,
    "/history": history.show,
}
WRITING: Final[dict[str, dict[str, Handler]]] = {
    "/topics/{topic}/produce": {"GET": produce.form, "POST": produce.send},
    "/group/reset": {"GET": reset.form, "POST": reset.execute},
    "/transactions/abort": {"GET": transactions.confirm, "POST": transactions.abort},
}


class ConsoleApplication:
    """One console over HTTP."""

    def __init__(self, console: Console, cluster: Cluster, sessions: Sessions) -> None:
        self._console = console
        self._cluster = cluster
        self._sessions = sessions

    def routes(self) -> list[BaseRoute]:
        """What there is."""
        found: list[BaseRoute] = [
            Route("/healthz", _health),
            Mount("/static", StaticFiles(directory=STATIC_FOLDER)),
        ]
        for path, handler in READING.items():
            found.append(Route(path, self._endpoint(handler)))
        if not self._console.settings.read_only:
            for path, handlers in WRITING.items():
                for method, handler in handlers.items():
                    found.append(Route(path, self._endpoint(handler), methods=[method]))
        if self._console.settings.login is not Login.NONE:
            found.append(Route("/login", self._open(login_form)))
            found.append(Route("/login", self._login, methods=["POST"]))
            found.append(Route("/logout", self._logout, methods=["POST"]))
        return found

    def _endpoint(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            session = self._sessions.find(request.cookies.get(COOKIE))
            if session is None and self._console.settings.login is not Login.NONE:
                return RedirectResponse("/login", 303)
            cluster = self._cluster if session is None else session.cluster
            user = None if session is None else session.user
            return await self._answer(request, handler, cluster, user)

        return endpoint

    def _open(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await self._answer(request, handler, self._cluster, None)

        return endpoint

    async def _login(self, request: Request) -> Response:
        def handler(call: ConsoleCall) -> Response:
            return log_in(call, self._sessions)

        return await self._answer(request, handler, self._cluster, None)

    async def _logout(self, request: Request) -> Response:
        return log_out(request, self._sessions)

    async def _answer(
        self, request: Request, handler: Handler, cluster: Cluster, user: str | None
    ) -> Response:
        call = ConsoleCall(request, self._console, cluster, user, {})
        try:
            if request.method not in SAFE_METHODS:
                call.form = await _form(request)
            return await run_in_threadpool(handler, call)
        except ClientDisconnect:
            return Response(status_code=400)
        except BadRequest as problem:
            return _failure(call, 400, "That does not work", str(problem))
        except EncodeError as problem:
            return _failure(call, 400, "That does not work", f"value out of range: {problem}")
        except KafkaError as problem:
            return _refused(call, problem)
        except Exception:
            log.exception("request failed", method=request.method, path=request.url.path)
            text = "Something went wrong in the console. Its log has the details."
            return _failure(call, 500, "Error", text)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form; no files, so nothing but urlencoded ones."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            raise BadRequest(f"the form is larger than {LARGEST_FORM >> 20} MiB")
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=200, errors="strict")
    except ValueError:
        raise BadRequest("the form cannot be read") from None
    return dict(pairs)


def _refused(call: ConsoleCall, problem: KafkaError) -> Response:
    if isinstance(problem, (ConnectionFailed, NoBroker)):
        answer = _failure(call, 503, "The cluster cannot be reached", str(problem), reload=True)
        if call.request.method in SAFE_METHODS:
            answer.headers["refresh"] = str(RELOAD_SECONDS)
        return answer
    if problem.code in _NOT_FOUND:
        return _failure(call, 404, "Not found", str(problem))
    if "AUTHORIZATION" in problem.code.name or "AUTHENTICATION" in problem.code.name:
        return _failure(call, 403, "Not allowed", str(problem))
    return _failure(call, 502, "The cluster refused", str(problem))


def _failure(
    call: ConsoleCall, status: int, title: str, text: str, *, reload: bool = False
) -> Response:
    return call.render("failure.html", status, title=title, text=text, reload=reload)


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def application(console: Console, cluster: Cluster, sessions: Sessions) -> Starlette:
    """The ASGI application."""
    app = ConsoleApplication(console, cluster, sessions)

    async def not_found(request: Request, problem: Exception) -> Response:
        call = ConsoleCall(request, console, cluster, None, {})
        status = getattr(problem, "status_code", 404)
        return _failure(call, status, "Not found", "There is no such page.")

    return Starlette(
        routes=app.routes(),
        middleware=[Middleware(Guard, allowed_hosts=console.settings.allowed_hosts)],
        exception_handlers={404: not_found, 405: not_found},
    )
