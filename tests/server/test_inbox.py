"""What a connection holds of what it has received: whole frames, and no more memory than came."""

from struct import Struct

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.server.inbox import KEPT_BYTES, SHARED_BYTES, SMALLEST_BUFFER, Inbox

SIZE = Struct(">i")


PATTERN = bytes(range(251))


def frame(size: int) -> bytes:
    return SIZE.pack(size) + (PATTERN * (size // len(PATTERN) + 1))[:size]


class Receiving:
    """An inbox as a connection uses it."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.frames: list[bytes] = []
        self.busy = False
        """True: what arrives is held, as behind a request that waits."""

    def receive(self, data: bytes | memoryview) -> int:
        """One receive of at most this; returns how much was taken."""
        room = self.inbox.room(self.shared)
        taken = min(len(room), len(data))
        room[:taken] = data[:taken]
        self.inbox.end += taken
        if not self.busy:
            self._handle()
        self.inbox.settle(self.shared)
        return taken

    def receive_all(self, data: bytes) -> int:
        """Receive until all is there; returns in how many steps."""
        steps = 0
        rest = memoryview(data)
        while rest:
            rest = rest[self.receive(rest) :]
            steps += 1
        return steps

    def _handle(self) -> None:
        inbox = self.inbox
        while inbox.waiting >= SIZE.size:
            (size,) = SIZE.unpack_from(inbox.view, inbox.start)
            if inbox.waiting < SIZE.size + size:
                return
            at = inbox.start + SIZE.size
            self.frames.append(bytes(inbox.view[at : at + size]))
            inbox.start = at + size

    @property
    def buffer(self) -> memoryview:
        """The connection's own buffer, or the shared one."""
        return self.inbox.view

    @property
    def memory(self) -> int:
        """Bytes of the connection's own buffer."""
        return 0 if self.inbox.view is self.shared else len(self.inbox.view)


def test_frames_that_arrive_whole_need_no_buffer() -> None:
    receiving = Receiving()
    assert receiving.receive_all(frame(100) * 20) == 1
    assert len(receiving.frames) == 20
    assert receiving.memory == 0


def test_what_is_left_over_leaves_the_shared_buffer() -> None:
    receiving = Receiving()
    receiving.receive(frame(100) + frame(100)[:30])
    receiving.shared[:] = bytes(SHARED_BYTES)  # another connection receives
    receiving.receive(frame(100)[30:])
    assert receiving.frames == [frame(100)[4:]] * 2


def test_a_length_field_takes_no_memory() -> None:
    receiving = Receiving()
    receiving.receive(SIZE.pack(100 << 20) + bytes(100))
    receiving.receive(bytes(100))
    assert receiving.memory <= SMALLEST_BUFFER


def test_memory_grows_with_what_has_arrived() -> None:
    receiving = Receiving()
    receiving.receive(SIZE.pack(100 << 20))
    arrived = SIZE.size
    while arrived < 8 << 20:
        arrived += receiving.receive(bytes(60_000))
        assert receiving.memory <= max(SMALLEST_BUFFER, 4 * arrived)


def test_a_large_frame_in_small_pieces_is_seldom_copied() -> None:
    receiving = Receiving()
    receiving.receive(SIZE.pack(100 << 20))
    buffers: list[memoryview] = []
    arrived = SIZE.size
    while arrived < 8 << 20:
        arrived += receiving.receive(bytes(10_000))
        if not buffers or receiving.buffer is not buffers[-1]:
            buffers.append(receiving.buffer)
    assert len(buffers) <= 12


def test_a_large_frame_is_received_in_few_steps() -> None:
    data = frame(10 << 20)
    assert Receiving().receive_all(data) <= 10


def test_a_large_frame_is_received_to_its_end_and_not_past_it() -> None:
    receiving = Receiving()
    data = frame(1 << 20) + frame(50)
    receiving.receive_all(data[: 1 << 20])
    rest = data[1 << 20 :]
    assert receiving.receive(rest) == len(rest) - 54
    assert receiving.inbox.waiting == 0


def test_many_small_receives_behind_a_waiting_request_do_not_crawl() -> None:
    receiving = Receiving()
    receiving.busy = True
    data = frame(20) * 2700
    steps = sum(receiving.receive_all(data[at : at + 3000]) for at in range(0, len(data), 3000))
    assert steps < 60
    assert receiving.memory <= 4 * len(data)


def test_after_a_small_rest_as_much_is_received_at_once_as_before() -> None:
    receiving = Receiving()
    receiving.receive(frame(100)[:50])
    receiving.receive(frame(100)[50:])
    assert len(receiving.inbox.room(receiving.shared)) == SHARED_BYTES


def test_the_buffer_of_a_rare_large_frame_is_given_back() -> None:
    receiving = Receiving()
    receiving.receive_all(frame(2 * KEPT_BYTES))
    receiving.receive(frame(10))
    assert receiving.memory == 0


def test_a_quiet_connection_gives_its_buffer_back() -> None:
    receiving = Receiving()
    receiving.receive_all(frame(KEPT_BYTES // 2))
    assert receiving.inbox.room(receiving.shared) is not receiving.shared
    receiving.inbox.release()
    receiving.receive(frame(10))
    assert receiving.memory == 0


def test_a_buffer_with_something_in_it_is_not_given_back() -> None:
    receiving = Receiving()
    receiving.receive(frame(100)[:50])
    receiving.inbox.release()
    receiving.receive(frame(100)[50:])
    assert receiving.frames == [frame(100)[4:]]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 5_000) | st.integers(0, 300_000), min_size=1, max_size=6),
    st.lists(st.integers(1, 200_000), min_size=1, max_size=20),
    st.lists(st.booleans(), min_size=1, max_size=20),
)
def test_every_frame_comes_out_as_it_went_in(
    sizes: list[int], pieces: list[int], holds: list[bool]
) -> None:
    receiving = Receiving()
    rest = memoryview(b"".join(frame(size) for size in sizes))
    turn = 0
    while rest:
        receiving.busy = holds[turn % len(holds)]
        piece = max(pieces[turn % len(pieces)], len(rest) // 500)
        rest = rest[receiving.receive(rest[:piece]) :]
        turn += 1
    receiving.busy = False
    receiving.receive(frame(0))
    assert receiving.frames == [frame(size)[4:] for size in [*sizes, 0]]
