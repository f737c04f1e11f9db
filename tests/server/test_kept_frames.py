"""A large frame is its handler's to keep: no later bytes are received into its buffer."""

import pytest

from ottla.server.interfaces import Answer
from ottla.wire.headers import KEPT_FRAME_BYTES, RequestHeader
from tests.server.fake_shell import METADATA, PRODUCE, FakeShell, request


class Keeper(FakeShell):
    """Keeps the frames that it has handled."""

    def __init__(self) -> None:
        super().__init__(lambda header: self.promise_by_task(header))
        self.largest_request = 10 * KEPT_FRAME_BYTES
        self.kept: list[memoryview] = []

    def handle(self, header: RequestHeader, frame: memoryview) -> Answer:
        self.kept.append(frame)
        return super().handle(header, frame)


@pytest.mark.parametrize("behind", [0, 1, 5_000])
def test_a_large_frame_stays_as_it_is(behind: int) -> None:
    shell = Keeper()
    # It waits behind another one, so what follows arrives in the same buffer.
    shell.receive(request(1, METADATA))
    large = request(2, PRODUCE, b"l" * KEPT_FRAME_BYTES)
    after = request(3, PRODUCE, b"s" * behind)
    shell.receive(large + after)
    shell.complete(1)
    assert shell.handled == [1, 2]
    shell.complete(2)
    for number in range(4, 8):
        shell.receive(request(number, PRODUCE, b"x" * 100_000))
        shell.complete(number - 1)
    shell.complete(7)
    assert shell.handled == [1, 2, 3, 4, 5, 6, 7]
    assert bytes(shell.kept[1]) == large[4:]
    assert shell.replies() == [1, 2, 3, 4, 5, 6, 7]
