"""Users, ACLs and quotas, to be read."""

from collections.abc import Callable
from typing import TypeVar

from starlette.responses import Response

from ottla.client import ConnectionFailed, KafkaError, NoBroker
from ottla.client.security_admin import SecurityAdmin
from ottla.console.calls import ConsoleCall
from ottla.console.paging import page_of
from ottla.security.acls import AclFilter

T = TypeVar("T")


def show(call: ConsoleCall) -> Response:
    """The page; what the cluster does not tell has a note in its place."""
    notes: dict[str, str] = {}

    def asked(about: str, ask: Callable[[], list[T]]) -> list[T]:
        try:
            return ask()
        except (ConnectionFailed, NoBroker):
            raise
        except KafkaError as problem:
            notes[about] = str(problem)
            return []

    with call.cluster.client() as client:
        admin = SecurityAdmin(client)
        users = asked("users", admin.users)
        acls = asked("acls", lambda: admin.acls(AclFilter()))
        quotas = asked("quotas", admin.quotas)
    return call.render(
        "access.html",
        users=sorted(users),
        acls=page_of(sorted(acls, key=str), call.number("page", 1)),
        quotas=quotas,
        notes=notes,
    )
