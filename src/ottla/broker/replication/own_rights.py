"""Whether the other brokers will let this one replicate: said at the start, not by stale replicas.

Rules kept here:
1. A broker is at the others who its login or its certificate says, by this broker's own settings:
   those of the listener between brokers are the same everywhere.
2. It is an error in the log and no reason to end: an ACL may come later.
"""

from __future__ import annotations

from typing import Final

import structlog

from ottla.config import BrokerConfig
from ottla.security.authorizer import Authorizer
from ottla.security.kerberos import GSSAPI
from ottla.security.listeners import link_settings, listener_security
from ottla.security.mapping import mapped
from ottla.security.operations import CLUSTER_NAME, Operation, ResourceType
from ottla.security.principal import ANONYMOUS, USER, WORKER, Principal
from ottla.security.private import WORKER_MECHANISM

log = structlog.get_logger()
_NEEDED: Final = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)


def report_own_rights(config: BrokerConfig, authorizer: Authorizer | None, host: str) -> None:
    """Say it where this broker may not replicate; it reaches the others from this host."""
    if authorizer is None or not config.ottla_store:
        return  # everybody may, or there are no others
    own = own_principal(config)
    allowed, rule = authorizer.explain(own, host, *_NEEDED)
    if not allowed:
        log.error(
            "this broker's user may not replicate: other brokers will refuse its fetches; allow "
            "it CLUSTER_ACTION on the cluster, or add it to super.users",
            principal=str(own),
            listener=config.inter_broker.name,
            rule=rule,
        )


def own_principal(config: BrokerConfig) -> Principal:
    """Who this broker is at the others."""
    link = link_settings(config)
    if link.mechanism == WORKER_MECHANISM:
        return WORKER
    if link.mechanism == GSSAPI and link.kerberos is not None:
        # As the rule DEFAULT has it; others may map it to something else.
        return Principal(USER, (link.kerberos.principal or "").partition("@")[0].partition("/")[0])
    if link.mechanism is not None:
        return Principal(USER, link.user)
    asked = listener_security(config, config.inter_broker)
    if link.tls is None or link.tls.keystore is None or asked.tls is None:
        return ANONYMOUS
    if asked.tls.client_auth == "none":
        return ANONYMOUS
    from ottla.security.tls_context import read_keystore

    material = read_keystore(link.tls.keystore, link.tls.key_password)
    name = mapped(asked.rules(), material.certificate.subject)
    return ANONYMOUS if name is None else Principal(USER, name)
