"""Changes of ACLs, credentials, quotas and tokens: decided on the image, committed to the store.

Errors have Kafka's codes and texts (AclControlManager, ScramControlManager,
ClientQuotaControlManager). A change counts here when its call returns, and on the other brokers as
soon as they have heard of it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.broker.metadata.authorization import acl_of
from ottla.config import BrokerConfig
from ottla.metadata.documents import encode
from ottla.metadata.image import Image
from ottla.metadata.security_documents import (
    SECRET,
    AclDocument,
    QuotaDocument,
    ScramDocument,
    SecretDocument,
    UserDocument,
    acl_key,
    quota_key,
    user_key,
)
from ottla.metadata.store import Create, Delete, Op, Update
from ottla.security.acls import Acl, AclFilter
from ottla.security.quotas import Entity, check_value
from ottla.wire.errors import ErrorCode, KafkaError

SECRET_BYTES: Final = 32
FEWEST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Kafka's numbers of the SCRAM mechanisms."""
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


async def ensure_secret(config: BrokerConfig, metadata: MetadataWriter) -> None:
    """Have a secret of the cluster, where clients log in."""
    if not any(each.protocol.startswith("SASL") for each in config.bound_listeners):
        return
    value = encode(SecretDocument(os.urandom(SECRET_BYTES)))
    await metadata.change(
        lambda image: (None, [] if image.security_secret else [Create(SECRET, value)])
    )


# ACLs -------------------------------------------------------------------------------------


async def create_acls(metadata: MetadataWriter, acls: Iterable[Acl]) -> None:
    """Have these ACLs; those that exist stay as they are."""
    wanted = {acl_key(acl.key): encode(AclDocument(*acl)) for acl in acls}
    await metadata.change(
        lambda image: (
            None,
            [Create(key, value) for key, value in wanted.items() if key not in image.acls],
        )
    )


async def delete_acls(metadata: MetadataWriter, filters: Sequence[AclFilter]) -> list[list[Acl]]:
    """Delete what each filter matches; which ACLs those were."""

    def decide(image: Image) -> tuple[list[list[Acl]], list[Op]]:
        doomed: dict[str, None] = {}
        found: list[list[Acl]] = []
        for each in filters:
            matching = _matching(image, each)
            found.append(list(matching.values()))
            doomed.update(dict.fromkeys(matching))
        return found, [Delete(key) for key in doomed]

    return await metadata.change(decide)


def find_acls(image: Image, wanted: AclFilter) -> list[Acl]:
    """The ACLs that a filter matches."""
    return list(_matching(image, wanted).values())


def _matching(image: Image, wanted: AclFilter) -> dict[str, Acl]:
    found: dict[str, Acl] = {}
    for key, document in image.acls.items():
        try:
            acl = acl_of(document)
        except ValueError:
            continue  # a newer broker's
        if wanted.matches(acl):
            found[key] = acl
    return found


# SCRAM credentials ------------------------------------------------------------------------


class Upsertion(NamedTuple):
    """A credential to be stored: the client has salted the password."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class CredentialDeletion(NamedTuple):
    """A credential to be removed."""

    user: str
    mechanism: int


async def alter_credentials(
    metadata: MetadataWriter,
    deletions: Sequence[CredentialDeletion],
    upsertions: Sequence[Upsertion],
) -> dict[str, KafkaError | None]:
    """Change credentials; what became of each user's."""

    def decide(image: Image) -> tuple[dict[str, KafkaError | None], list[Op]]:
        errors: dict[str, KafkaError] = {}
        accepted: dict[str, CredentialDeletion | Upsertion] = {}
        changes: list[CredentialDeletion | Upsertion] = [*deletions, *upsertions]
        for each in changes:
            if each.user in errors:
                continue
            problem = None
            if accepted.pop(each.user, None) is not None:
                problem = KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            else:
                problem = _problem(image, each)
            if problem is None:
                accepted[each.user] = each
            else:
                errors[each.user] = problem
        ops = [_op(image, each) for each in accepted.values()]
        return {**dict.fromkeys(accepted), **errors}, ops

    return await metadata.change(decide)


def _problem(image: Image, change: CredentialDeletion | Upsertion) -> KafkaError | None:
    if not change.user:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    mechanism = MECHANISMS.get(change.mechanism)
    if mechanism is None:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, Upsertion):
        if change.iterations < FEWEST_ITERATIONS:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > MOST_ITERATIONS:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    elif (mechanism, change.user) not in image.scram_credentials:
        return KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return None


def _op(image: Image, change: CredentialDeletion | Upsertion) -> Op:
    mechanism = MECHANISMS[change.mechanism]
    scram = credentials_of(image, change.user)
    if isinstance(change, Upsertion):
        scram[mechanism] = _credential(mechanism, change)
    else:
        del scram[mechanism]
    key = user_key(change.user)
    version = image.security_versions.get(key)
    if not scram:
        return Delete(key, version)
    value = encode(UserDocument(change.user, scram))
    return Create(key, value) if version is None else Update(key, value, version)


def _credential(mechanism: str, change: Upsertion) -> ScramDocument:
    """RFC 5802: what verifies a password without knowing it."""
    digest = HASHES[mechanism]
    client_key = hmac.digest(change.salted_password, b"Client Key", digest)
    return ScramDocument(
        salt=change.salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(change.salted_password, b"Server Key", digest),
        iterations=change.iterations,
    )


def credentials_of(image: Image, user: str) -> dict[str, ScramDocument]:
    """A user's credentials, by mechanism."""
    found: dict[str, ScramDocument] = {}
    for mechanism in MECHANISMS.values():
        credential = image.scram_credentials.get((mechanism, user))
        if credential is not None:
            found[mechanism] = credential
    return found


def user_names(image: Image) -> list[str]:
    """All who have credentials."""
    return sorted({user for _, user in image.scram_credentials})


# Quotas -----------------------------------------------------------------------------------


async def alter_quotas(
    metadata: MetadataWriter,
    entity: Entity,
    values: Mapping[str, float | None],
    *,
    validate_only: bool,
) -> None:
    """Set quotas of an entity, or remove those whose value is None; raises KafkaError."""
    for name, value in values.items():
        if value is not None:
            check_value(entity, name, value)
    key = quota_key(*entity)

    def decide(image: Image) -> tuple[None, list[Op]]:
        known = image.quotas.get(key)
        before = {} if known is None else known.values
        after = {name: value for name, value in {**before, **values}.items() if value is not None}
        version = image.security_versions.get(key)
        if validate_only or after == before:
            return None, []
        if not after:
            return None, [Delete(key, version)]
        value = encode(QuotaDocument(*entity, after))
        return None, [Create(key, value) if version is None else Update(key, value, version)]

    await metadata.change(decide)
