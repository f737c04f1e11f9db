"""Changes of metadata are carried out in order; one that fails does not stop those behind it."""

import asyncio
from pathlib import Path

import pytest

from ottla.broker.opening import LogOpener
from ottla.broker.topics import create_topic
from ottla.cluster.image import TopicImage
from ottla.cluster.topics import NewTopic
from tests.broker.nodes import running


def test_a_topic_behind_one_that_cannot_be_made_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_new_partitions = LogOpener.open_new_partitions

    async def live() -> None:
        async with running(tmp_path) as node:
            good_is_known = asyncio.Event()

            async def fail_for_bad(opener: LogOpener, topic: TopicImage) -> None:
                if topic.name == "bad":
                    await good_is_known.wait()
                    raise RuntimeError("nobody thought of this")
                await open_new_partitions(opener, topic)

            monkeypatch.setattr(LogOpener, "open_new_partitions", fail_for_bad)
            creating = [
                asyncio.get_running_loop().create_task(create_topic(node, NewTopic(name)))
                for name in ("bad", "good")
            ]
            while len(node.image.topics) < 2:  # noqa: ASYNC110 (nobody sets an event)
                await asyncio.sleep(0)
            good_is_known.set()
            await asyncio.wait(creating)
            assert node.partitions.find("good", 0).leads

    asyncio.run(live())
