"""A connection without a socket: bytes are fed, replies are read from the outbox."""

from collections.abc import Callable
from struct import pack, unpack_from

from ottla.later import Later
from ottla.security.principal import Principal
from ottla.security.sasl import SaslGate
from ottla.server.budget import FrameBudget
from ottla.server.inbox import SHARED_BYTES
from ottla.server.interfaces import Answer
from ottla.server.protocol import REQUESTS_IN_ONE_TURN, ServerProtocol
from ottla.server.states import Flow
from ottla.wire.apis import ApiKey
from ottla.wire.headers import RequestHeader
from ottla.wire.reply import Parts

PRODUCE = int(ApiKey.PRODUCE)
METADATA = int(ApiKey.METADATA)


def request(correlation_id: int, key: int = METADATA, body: bytes = b"") -> bytes:
    """A frame with a header of version 1 and a body that nobody reads."""
    content = pack(">hhih", key, 3, correlation_id, -1) + body
    return pack(">i", len(content)) + content


class FakeShell:
    """Handles requests as a test says, and does what a shell does."""

    def __init__(
        self,
        answer: Callable[[RequestHeader], Answer] | None = None,
        gate: SaslGate | None = None,
        budget: FrameBudget | None = None,
        arrivals: FrameBudget | None = None,
    ) -> None:
        self.principal: Principal | None = None
        self.logins = 0
        self.rooms_freed = 0
        self.failed_logins: list[tuple[str, Later[Parts | None], Parts | None]] = []
        self.handled: list[int] = []
        """Correlation ids, in the order in which the requests were handled."""
        self.waiting: dict[int, Later[Parts | None]] = {}
        """The replies that are promised, by correlation id."""
        self.largest_request = 1 << 20
        self.wakes = 0
        self.failures: list[BaseException] = []
        self.counted: list[tuple[int, int]] = []
        self._answer = answer or (lambda header: (b"%d" % header.correlation_id,))
        self._shared = memoryview(bytearray(SHARED_BYTES))
        self.protocol = ServerProtocol(self, self, gate, budget, arrivals)

    # What the protocol asks for ------------------------------------------------------------

    def now(self) -> float:
        return 0.0

    def handle(self, header: RequestHeader, frame: memoryview) -> Answer:
        self.handled.append(header.correlation_id)
        return self._answer(header)

    def answered(self, api_key: int, started: float, size: int) -> None:
        self.counted.append((api_key, size))

    def wake_soon(self) -> None:
        self.wakes += 1

    def reply_ready(self) -> None:
        self.protocol.release_replies()

    def task_done(self) -> None:
        self.protocol.release_replies()
        self.work()

    def reply_failed(self, error: BaseException) -> None:
        self.failures.append(error)
        self.protocol.refuse_input()

    def authenticated(self, principal: Principal, *, via_token: bool = False) -> None:
        self.principal = principal

    def login_done(self) -> None:
        self.logins += 1

    def login_failed(self, problem: str, answer: Later[Parts | None], reply: Parts | None) -> None:
        self.failed_logins.append((problem, answer, reply))
        self.protocol.refuse_input()

    def room_freed(self) -> None:
        self.rooms_freed += 1

    # What a test does ----------------------------------------------------------------------

    def promise(self, header: RequestHeader) -> Later[Parts | None]:
        """A reply that the test completes."""
        return self.waiting.setdefault(header.correlation_id, Later())

    def promise_by_task(self, header: RequestHeader) -> Later[Parts | None]:
        """The same, as a task that has not done its work."""
        return self.waiting.setdefault(header.correlation_id, Later(by_task=True))

    def complete(self, correlation_id: int) -> None:
        self.waiting[correlation_id].complete((b"%d" % correlation_id,))

    def receive(self, data: bytes) -> None:
        """Bytes arrive, as many as there is room for, until all are received."""
        while data:
            room = self.protocol.inbox.room(self._shared)
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.protocol.received(count)
            data = data[count:]
            if self.protocol.flow is Flow.READY:
                self.work()
        self.protocol.inbox.settle(self._shared)

    def work(self) -> None:
        self.protocol.handle_frames(REQUESTS_IN_ONE_TURN)

    def replies(self) -> list[int]:
        """The correlation ids of what is in the outbox, which is sent."""
        outbox = self.protocol.outbox
        data = b"".join(bytes(part) for part in outbox.parts if not isinstance(part, tuple))
        outbox.parts.clear()
        outbox.size = 0
        found = []
        while data:
            size, correlation_id = unpack_from(">ii", data)
            found.append(correlation_id)
            data = data[4 + size :]
        return found
