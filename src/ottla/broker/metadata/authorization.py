"""The broker's authorizer: it follows the metadata, and logs what it denied.

Rules kept here:
1. Without `authorizer.class.name` there is none, and everybody may do everything.
2. ACLs come from the image. A change counts on this broker as soon as the image has it.
3. Denials go to the logger `kafka.authorizer.logger`, in Kafka's words, and not too many of them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from ottla.security.authorizer import EVERYTHING, Access, Authorizer
from ottla.security.denials import Denial, Denials
from ottla.security.operations import Operation, ResourceType, type_name
from ottla.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

log = structlog.get_logger("kafka.authorizer.logger")


class Authorization:
    """Who may do what on this broker."""

    def __init__(self, config: BrokerConfig) -> None:
        self.denials = Denials()
        self.authorizer: Authorizer | None = None
        if config.authorizer_class_name:
            self.authorizer = Authorizer(
                config.super_user_names,
                allow_everyone=config.allow_everyone_if_no_acl_found,
                on_denied=self._denied,
            )

    def access(self, principal: Principal, host: str, *, via_token: bool = False) -> Access:
        """What the client of a connection may do, for as long as the connection lasts."""
        if self.authorizer is not None:
            return self.authorizer.access(principal, host, via_token=via_token)
        if principal == ANONYMOUS:
            return EVERYTHING
        return Access(None, principal, host, via_token=via_token)

    def _denied(self, access: Access, operation: Operation, kind: ResourceType, name: str) -> None:
        denial = Denial(str(access.principal), access.host, operation, kind, name)
        told = self.denials.note(denial, time.monotonic())
        if told is None:
            return
        assert self.authorizer is not None
        _, rule = self.authorizer.explain(access.principal, access.host, operation, kind, name)
        log.info(
            "denied",
            principal=denial.principal,
            host=denial.host,
            operation=operation.name,
            resource=f"{type_name(kind)}:LITERAL:{name}",
            rule=rule,
            suppressed=told.suppressed or None,
        )
