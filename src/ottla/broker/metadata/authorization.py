"""The broker's authorizer: it follows the metadata, and logs what it denied.

Rules kept here:
1. Without `authorizer.class.name` there is none, and everyone may do everything.
2. ACLs come from the image. A change counts on this broker as soon as the image has it.
3. Denials go to the logger `kafka.authorizer.logger`, in Kafka's words, and not too many of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import structlog

from ottla.metadata.image import Image
from ottla.metadata.security_documents import AclDocument
from ottla.metadata.security_image import SecurityDelta
from ottla.security.acls import Acl
from ottla.security.authorizer import EVERYTHING, Access, Authorizer
from ottla.security.denials import Denial, Denials
from ottla.security.operations import (
    Operation,
    PatternType,
    Permission,
    ResourceType,
    type_name,
)
from ottla.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

log = structlog.get_logger("kafka.authorizer.logger")


def _known(acls: Iterable[AclDocument]) -> list[Acl]:
    """The ACLs that this broker understands; a newer one may have made others."""
    found: list[Acl] = []
    for acl in acls:
        try:
            found.append(acl_of(acl))
        except ValueError:
            log.error("ACL not understood; ignoring it", acl=str(acl))
    return found


def acl_of(acl: AclDocument) -> Acl:
    """An ACL as it is stored; raises ValueError where it has unknown numbers."""
    return Acl(
        ResourceType(acl.resource_type),
        acl.name,
        PatternType(acl.pattern_type),
        acl.principal,
        acl.host,
        Operation(acl.operation),
        Permission(acl.permission),
    )


class Authorization:
    """Who may do what on this broker."""

    def __init__(self, config: BrokerConfig) -> None:
        self.denials = Denials()
        self.on_users_changed: Callable[[Sequence[str]], None] | None = None
        """Called with the users whose SCRAM credentials were changed or removed."""
        self.authorizer: Authorizer | None = None
        if config.authorizer_class_name:
            self.authorizer = Authorizer(
                config.super_user_names,
                allow_everyone=config.allow_everyone_if_no_acl_found,
                on_denied=self._denied,
            )

    def loaded(self, image: Image) -> None:
        """The metadata are known: begin with what they have."""
        self.learned(SecurityDelta(added_acls=list(image.acls.values())))

    def learned(self, delta: SecurityDelta) -> None:
        """The metadata have changed."""
        if delta.changed_users and self.on_users_changed is not None:
            self.on_users_changed(delta.changed_users)
        if self.authorizer is not None and (delta.added_acls or delta.removed_acls):
            self.authorizer.changed(_known(delta.added_acls), _known(delta.removed_acls))

    def access(self, principal: Principal, host: str, *, via_token: bool = False) -> Access:
        """What the client of a connection may do, for as long as the connection lasts."""
        if self.authorizer is not None:
            return self.authorizer.access(principal, host, via_token=via_token)
        if principal == ANONYMOUS:
            return EVERYTHING
        return Access(None, principal, host, via_token=via_token)

    def _denied(self, access: Access, operation: Operation, kind: ResourceType, name: str) -> None:
        denial = Denial(str(access.principal), access.host, operation, kind, name)
        noted = self.denials.note(denial, time.monotonic())
        if noted is None:
            return
        assert self.authorizer is not None
        _, rule = self.authorizer.explain(access.principal, access.host, operation, kind, name)
        log.info(
            "denied",
            principal=denial.principal,
            host=denial.host,
            operation=operation.name,
            resource=f"{type_name(kind)}:LITERAL:{noted.denial.name}",
            rule=rule,
            suppressed=noted.suppressed or None,
        )
