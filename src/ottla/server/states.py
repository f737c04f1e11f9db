"""What a connection does, as two small state machines: its flow, and its input.

Rules kept here:
1. The tables name every legal move. Any other raises IllegalMove and changes nothing.
2. CLOSED is final for the flow, ENDED for the input.
3. The shell follows them and keeps no flags of its own: it watches for readability exactly while
   the input is OPEN, and for writability exactly while the flow is SENDING.
"""

from enum import Enum
from typing import Final, TypeVar


class Flow(Enum):
    """How far a connection is with requests and replies."""

    READY = "requests are handled as they arrive"
    RESTING = "it has given way to others and continues in the next turn of the loop"
    SENDING = "the socket is full; nothing is handled until the replies have left"
    LOADING = "the next bytes to send are read from disk; nothing is handled until then"
    CLOSED = "the connection has ended"


# By these names, where it counts: to look a member up in its class costs more than the rest.
READY: Final = Flow.READY
RESTING: Final = Flow.RESTING
SENDING: Final = Flow.SENDING
CLOSED: Final = Flow.CLOSED


class FlowEvent(Enum):
    """What moves the flow."""

    GIVE_WAY = "it had its share of this turn"
    WAKE = "the next turn has come"
    BLOCK = "the socket took less than there is to send"
    LOAD = "the next bytes to send are not in the page cache"
    LOADED = "they are in memory now"
    DRAIN = "all replies have left"
    CLOSE = "the connection ends"


class Input(Enum):
    """What is done about the bytes that a client sends."""

    OPEN = "they are received"
    PAUSED = "enough is held; they stay in the kernel's buffer"
    ENDED = "there are no more, or what came cannot be understood"


OPEN: Final = Input.OPEN
PAUSED: Final = Input.PAUSED
ENDED: Final = Input.ENDED


class InputEvent(Enum):
    """What moves the input."""

    PAUSE = "enough is held"
    RESUME = "there is room again"
    END = "the client has finished sending, or sent what cannot be answered"


class IllegalMove(Exception):  # noqa: N818 (it names what happened)
    """An event that cannot come in this state."""


FLOW: Final[dict[Flow, dict[FlowEvent, Flow]]] = {
    Flow.READY: {
        FlowEvent.GIVE_WAY: Flow.RESTING,
        FlowEvent.BLOCK: Flow.SENDING,
        FlowEvent.LOAD: Flow.LOADING,
        FlowEvent.CLOSE: Flow.CLOSED,
    },
    Flow.RESTING: {
        FlowEvent.WAKE: Flow.READY,
        FlowEvent.BLOCK: Flow.SENDING,
        FlowEvent.LOAD: Flow.LOADING,
        FlowEvent.CLOSE: Flow.CLOSED,
    },
    Flow.SENDING: {
        FlowEvent.LOAD: Flow.LOADING,
        FlowEvent.DRAIN: Flow.READY,
        FlowEvent.CLOSE: Flow.CLOSED,
    },
    Flow.LOADING: {
        FlowEvent.LOADED: Flow.READY,
        FlowEvent.CLOSE: Flow.CLOSED,
    },
    Flow.CLOSED: {},
}

INPUT: Final[dict[Input, dict[InputEvent, Input]]] = {
    Input.OPEN: {InputEvent.PAUSE: Input.PAUSED, InputEvent.END: Input.ENDED},
    Input.PAUSED: {InputEvent.RESUME: Input.OPEN, InputEvent.END: Input.ENDED},
    Input.ENDED: {InputEvent.END: Input.ENDED},
}

S = TypeVar("S", Flow, Input)
E = TypeVar("E", FlowEvent, InputEvent)


def moved(table: dict[S, dict[E, S]], state: S, event: E) -> S:
    """The state after an event; raises IllegalMove where the table has none."""
    try:
        return table[state][event]
    except KeyError:
        raise IllegalMove(f"{event.name} in state {state.name}") from None
