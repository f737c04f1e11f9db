"""Connections between brokers: answers of any size, and what is no answer."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest
import uvloop

from ottla.broker.replication.link import FIRST_MEMORY, MOST_KEPT, Link, LinkError
from ottla.metadata.documents import BrokerEndpoint
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

SECONDS = 10.0
Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=1, committed=True)
VERSION = 3


@asynccontextmanager
async def linked(peer: Peer) -> AsyncIterator[Link]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await peer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    link = await Link.open(BrokerEndpoint("PLAINTEXT", host, port, "PLAINTEXT"), SECONDS)
    try:
        yield link
    finally:
        link.close()
        server.close()
        await server.wait_closed()


async def asked(reader: asyncio.StreamReader) -> int:
    """Read a request; its correlation id."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    number: int = struct.unpack_from(">i", await reader.readexactly(size), 4)[0]
    return number


def answer(number: int, body: bytes) -> bytes:
    """A frame with a flexible response header."""
    return struct.pack(">iiB", 5 + len(body), number, 0) + body


def test_answers_of_all_sizes_arrive_whole_one_after_another() -> None:
    sizes = [0, 1, FIRST_MEMORY - 9, FIRST_MEMORY, 3 * FIRST_MEMORY, MOST_KEPT + 1, 17]

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for size in sizes:
            writer.write(answer(await asked(reader), bytes([size % 251]) * size))

    async def main() -> None:
        async with linked(peer) as link:
            for size in sizes:
                data, at = await link.ask_for_bytes(REQUEST, VERSION, SECONDS)
                assert bytes(data[at:]) == bytes([size % 251]) * size

    asyncio.run(main())


def test_an_answer_in_pieces_is_put_together() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in answer(await asked(reader), bytes(10)):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async def main() -> None:
        async with linked(peer) as link:
            found = await link.ask(REQUEST, EndTxnResponse, VERSION, SECONDS)
            assert found.error_code == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (struct.pack(">i", -1), "invalid response size -1"),
        (struct.pack(">i", 2**31 - 1), "invalid response size 2147483647"),
        (answer(99, bytes(10)), "correlation id 99 does not match request 0"),
        (answer(0, bytes(10)) + b"more", "4 unexpected bytes after a response"),
        (answer(0, b""), "EndTxnResponse"),
    ],
)
def test_what_is_no_answer_ends_the_connection(said: bytes, reason: str) -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(said)
        await reader.read()

    async def main() -> None:
        async with linked(peer) as link:
            with pytest.raises(LinkError, match=reason):
                await link.ask(REQUEST, EndTxnResponse, VERSION, SECONDS)
            with pytest.raises(LinkError):
                await link.ask(REQUEST, EndTxnResponse, VERSION, SECONDS)

    asyncio.run(main())


def test_a_broker_that_hangs_up_or_is_silent_is_an_error() -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)

    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with linked(hangs_up) as link:
            with pytest.raises(LinkError, match="connection closed by the broker"):
                await link.ask(REQUEST, EndTxnResponse, VERSION, SECONDS)
        async with linked(says_nothing) as link:
            with pytest.raises(LinkError, match="request timed out"):
                await link.ask(REQUEST, EndTxnResponse, VERSION, 0.05)

    asyncio.run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_that_ended_between_two_questions_is_an_error(
    run: Callable[[Coroutine[None, None, None]], None],
) -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(await asked(reader), bytes(10)))

    async def main() -> None:
        async with linked(peer) as link:
            await link.ask(REQUEST, EndTxnResponse, VERSION, SECONDS)
            transport = link._receiver.transport
            while not transport.is_closing():  # noqa: ASYNC110 (nobody tells a test)
                await asyncio.sleep(0)
            with pytest.raises(LinkError):
                await link.ask(REQUEST, EndTxnResponse, VERSION, SECONDS)

    run(main())


def test_a_question_to_a_broker_that_has_hung_up_fails_at_once() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def live() -> None:
        async with linked(peer) as link:
            while link.is_open:  # noqa: ASYNC110 (nobody sets an event)
                await asyncio.sleep(0)
            with pytest.raises(LinkError, match=r"closed|lost|reset"):
                await link.ask(REQUEST, EndTxnResponse, VERSION, SECONDS)

    asyncio.run(live())


def test_an_answer_that_is_none_closes_the_link() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(await asked(reader), b""))
        await reader.read()

    async def live() -> None:
        async with linked(peer) as link:
            with pytest.raises(LinkError):
                await link.ask(REQUEST, EndTxnResponse, VERSION, SECONDS)
            assert not link.is_open

    asyncio.run(live())


def test_a_broker_that_is_not_there_is_named_with_the_reason() -> None:
    async def live() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        server.close()
        await server.wait_closed()
        with pytest.raises(LinkError, match=f"^{host}:{port}: .*(refused|failed)"):
            await Link.open(BrokerEndpoint("PLAINTEXT", host, port, "PLAINTEXT"), SECONDS)

    asyncio.run(live())
