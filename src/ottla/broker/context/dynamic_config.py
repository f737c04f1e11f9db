"""The settings in force: the static ones, and the dynamic ones of the metadata on top of them."""

import structlog

from ottla.config import BrokerConfig, ConfigError
from ottla.metadata.image import Image

log = structlog.get_logger()


class DynamicConfig:
    """Holds the settings in force. `current` is replaced as a whole when they change."""

    __slots__ = ("current",)

    def __init__(self, static: BrokerConfig) -> None:
        self.current = static

    def update(self, image: Image, broker: int) -> bool:
        """Take the dynamic settings of a broker from the image; False where they are invalid."""
        default = image.broker_configs.get(None)
        own = image.broker_configs.get(broker)
        try:
            self.current = self.current.with_dynamic(
                default.configs if default else {}, own.configs if own else {}
            )
        except ConfigError as problem:
            log.error("dynamic settings are invalid; ignoring them", reason=str(problem))
            return False
        return True
