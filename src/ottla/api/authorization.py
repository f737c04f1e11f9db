"""What an API checks before it does anything: the value of `authorize=` in its registration.

Rules kept here:
1. Every API says what it checks; there is no default.
2. `OnCluster`, `OnGroup` and `OnTransaction` are checked before the handler is called. A refusal is
   the API's own reply with the error at its top, or what `refuse` makes of it.
3. `Inside` names the pairs of operation and resource type that the handler asks `request.access`
   for, one by one. A test sends every API as a client without rights: each pair must be asked for,
   no other may be, nothing may change, and the reply must have the error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ottla.security.operations import CLUSTER_NAME, REFUSED, Operation, ResourceType
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.api.registry import Request

Q = TypeVar("Q", bound=Message)
Refuse = Callable[[Any, ErrorCode], Message]
Pair = tuple[Operation, ResourceType]

MESSAGES: Final[dict[ResourceType, str]] = {
    ResourceType.TOPIC: "Topic authorization failed.",
    ResourceType.GROUP: "Group authorization failed.",
    ResourceType.CLUSTER: "Cluster authorization failed.",
    ResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}


class Public(NamedTuple):
    """Everyone may ask, for this reason."""

    reason: str

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """What the API asks for."""
        return ()


class Inside:
    """The handler checks each element of the request for itself."""

    __slots__ = ("pairs",)

    def __init__(self, *pairs: Pair) -> None:
        self.pairs = pairs


class _Before:
    """Checked before the handler is called."""

    __slots__ = ("_field", "kind", "operation", "refuse")

    def __init__(
        self,
        kind: ResourceType,
        operation: Operation,
        field: str | None,
        refuse: Refuse | None,
    ) -> None:
        self.kind = kind
        self.operation = operation
        self.refuse = refuse
        self._field = field

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """What the API asks for."""
        return ((self.operation, self.kind),)

    def refusal(self, request: Request, asked: Message) -> Message | None:
        """The reply to a client that may not; None where it may."""
        name = CLUSTER_NAME if self._field is None else getattr(asked, self._field)
        if request.access.may(self.operation, self.kind, name):
            return None
        code = REFUSED[self.kind]
        if self.refuse is not None:
            return self.refuse(asked, code)
        return refused_at_top(asked, code, MESSAGES[self.kind])


class OnCluster(_Before):
    """An operation on the cluster."""

    __slots__ = ()

    def __init__(self, operation: Operation, refuse: Refuse | None = None) -> None:
        super().__init__(ResourceType.CLUSTER, operation, None, refuse)


class OnGroup(_Before):
    """An operation on the group that a field of the request names."""

    __slots__ = ()

    def __init__(self, operation: Operation, field: str, refuse: Refuse | None = None) -> None:
        super().__init__(ResourceType.GROUP, operation, field, refuse)


class OnTransaction(_Before):
    """An operation on the transactional id that a field of the request names."""

    __slots__ = ()

    def __init__(self, operation: Operation, field: str, refuse: Refuse | None = None) -> None:
        super().__init__(ResourceType.TRANSACTIONAL_ID, operation, field, refuse)


Authorize = Public | Inside | OnCluster | OnGroup | OnTransaction


def refused_at_top(asked: Message, code: ErrorCode, message: str | None) -> Message:
    """The reply to a request with an error at its top, and nothing else."""
    kind = type(asked)
    messages = sys.modules[kind.__module__]
    reply: Message = getattr(messages, kind.__name__.removesuffix("Request") + "Response")()
    reply.error_code = code  # type: ignore[attr-defined]  # the test of all APIs holds it
    if hasattr(reply, "error_message"):
        reply.error_message = message
    return reply
