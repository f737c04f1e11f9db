"""The balance of leaders: the controller moves leadership back to preferred replicas now and then.

The decision is in `metadata/elect_leaders.py`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.metadata.controller import is_controller
from ottla.metadata.elect_leaders import rebalance
from ottla.metadata.image import Image
from ottla.metadata.store import StoreError

log = structlog.get_logger()

ELECTIONS_AT_ONCE: Final = 500
ANY_IMBALANCE: Final = 0
"""In percent. Kafka removed its setting for it: every leader goes back."""


class LeaderBalancer:
    """Looks at the leaders every `leader.imbalance.check.interval.seconds`."""

    def __init__(
        self, broker: BrokerState, config: DynamicConfig, image: Image, metadata: MetadataWriter
    ) -> None:
        self._broker = broker
        self._config = config
        self._image = image
        self._metadata = metadata
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, unless `auto.leader.rebalance.enable` says no."""
        if self._config.current.auto_leader_rebalance_enable:
            self._task = asyncio.get_running_loop().create_task(self._repeat())

    async def stop(self) -> None:
        """Move nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._config.current.leader_imbalance_check_interval_seconds)
            try:
                await self.look()
            except StoreError as problem:  # a concurrent change won: it is checked again
                log.info("preferred leader election failed; retrying", reason=str(problem))
            except Exception:
                log.exception("preferred leader election failed; retrying")

    async def look(self) -> None:
        """Hold the preferred elections that are due; raises StoreError."""
        if not is_controller(self._image, self._broker.id, self._broker.epoch):
            return
        ops = rebalance(self._image, ANY_IMBALANCE, ELECTIONS_AT_ONCE)
        if ops:
            await self._metadata.commit(ops)
