"""The child process that works on schemas: its limits, and its life."""

import asyncio
import os
import signal

import pytest

from ottla.registry.errors import RegistryError
from ottla.registry.languages import SchemaSource
from ottla.registry.languages.checker import Checker


def test_a_child_that_was_killed_is_replaced() -> None:
    async def go() -> None:
        checker = Checker()
        assert await checker.parse("AVRO", SchemaSource('"int"'), normalize=False) == '"int"'
        child = checker._child
        assert child is not None
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
        assert await checker.parse("AVRO", SchemaSource('"long"'), normalize=False) == '"long"'
        await checker.close()

    asyncio.run(go())


def test_a_child_that_takes_too_long_is_killed_and_the_schema_refused() -> None:
    async def go() -> None:
        checker = Checker(time_limit=1.0)
        await checker.parse("JSON", SchemaSource("true"), normalize=False)
        before = checker._child
        assert before is not None
        os.kill(before.pid, signal.SIGSTOP)
        with pytest.raises(RegistryError, match="within 1 seconds") as caught:
            await checker.parse("JSON", SchemaSource("{}"), normalize=False)
        assert caught.value.code == 42201
        assert before.returncode is not None
        assert await checker.parse("JSON", SchemaSource("{}"), normalize=False) == "{}"
        await checker.close()

    asyncio.run(go())


def test_requests_at_the_same_time_get_their_own_answers() -> None:
    async def go() -> None:
        checker = Checker()
        texts = [f'{{"type":"fixed","name":"F","size":{size}}}' for size in range(1, 30)]
        found = await asyncio.gather(
            *(checker.parse("AVRO", SchemaSource(text), normalize=False) for text in texts)
        )
        assert found == texts
        await checker.close()

    asyncio.run(go())


def test_an_answer_is_remembered() -> None:
    async def go() -> None:
        checker = Checker()
        await checker.parse("AVRO", SchemaSource('"int"'), normalize=False)
        await checker.close()
        assert await checker.parse("AVRO", SchemaSource('"int"'), normalize=False) == '"int"'
        assert checker._child is None

    asyncio.run(go())
