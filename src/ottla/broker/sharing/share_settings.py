"""The settings of a share group as its share partitions use them, from the image and the broker."""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.config import group_configs as names
from ottla.config.group_configs import BROKER_SETTINGS, BY_DURATION, duration_ms, group_values
from ottla.config.types import Value
from ottla.metadata.image import Image
from ottla.share.states import ShareSettings


class GroupShareSettings(NamedTuple):
    """What a group has set for its share partitions."""

    partition: ShareSettings
    offset_reset: str
    read_committed: bool

    def reset_before_ms(self) -> int | None:
        """How far back a by_duration reset goes; None for another one."""
        if not self.offset_reset.startswith(BY_DURATION):
            return None
        return duration_ms(self.offset_reset.removeprefix(BY_DURATION))


class ShareGroupSettings:
    """The settings of all groups; parsed once for each change."""

    def __init__(self, config: DynamicConfig, image: Image) -> None:
        self._config = config
        self._image = image
        self._known: dict[str, tuple[object, object, GroupShareSettings]] = {}

    def of(self, group: str) -> GroupShareSettings:
        """The settings of a group as they are now."""
        own = self._image.group_configs.get(group)
        config = self._config.current
        known = self._known.get(group)
        if known is not None and known[0] is own and known[1] is config:
            return known[2]
        broker = {name: getattr(config, name.replace(".", "_")) for name in BROKER_SETTINGS}
        values = group_values({} if own is None else own.configs, broker)
        settings = GroupShareSettings(
            ShareSettings(
                _int(values[names.SHARE_DELIVERY_COUNT_LIMIT]),
                _int(values[names.SHARE_RECORD_LOCK_DURATION]),
                _int(values[names.SHARE_PARTITION_MAX_RECORD_LOCKS]),
                bool(values[names.SHARE_RENEW_ACKNOWLEDGE]),
                _int(values[names.SHARE_REDELIVERY_DELAY]),
            ),
            str(values[names.SHARE_AUTO_OFFSET_RESET]),
            values[names.SHARE_ISOLATION_LEVEL] == "read_committed",
        )
        self._known[group] = own, config, settings
        return settings

    def forget(self, group: str) -> None:
        """No member of the group is left here."""
        self._known.pop(group, None)


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value
