"""ACLs, credentials, quotas and tokens are kept in the store, and are gone when removed."""

import asyncio
import hashlib
import hmac
from pathlib import Path

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.delegation_tokens import find_token, keep_token, remove_token, tokens_of
from ottla.broker.metadata.security import (
    CredentialDeletion,
    Upsertion,
    alter_credentials,
    alter_quotas,
    create_acls,
    delete_acls,
    find_acls,
    user_names,
)
from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from ottla.metadata.image import Image
from ottla.security.acls import Acl, AclFilter
from ottla.security.operations import Operation, PatternType, Permission, ResourceType
from ottla.security.principal import Principal
from ottla.security.quotas import PRODUCE, Entity
from ottla.security.tokens import DelegationToken, token_hmac
from ottla.wire.errors import ErrorCode, KafkaError
from tests.broker.nodes import running

ALICE = Principal("User", "alice")
SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "delegation.token.secret.key": "secret"}


def _acl(name: str, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(
        ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", "*", Operation.READ, permission
    )


async def _stored(node: BrokerServer) -> Image:
    """The image that another broker would make of what is stored."""
    return Image.of(await node.metadata.store.scan(""))


def test_an_acl_counts_when_its_creation_is_answered_and_no_more_when_it_is_deleted(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            access = node.authorization.access(ALICE, "10.0.0.1")
            assert not access.sees_topic("t")
            await create_acls(node.metadata, [_acl("t"), _acl("u")])
            assert access.sees_topic("t")
            await create_acls(node.metadata, [_acl("t")])  # it exists
            assert await _stored(node) == node.image
            assert len(node.image.acls) == 2
            (deleted,) = await delete_acls(node.metadata, [AclFilter(ResourceType.TOPIC, "t")])
            assert deleted == [_acl("t")]
            assert not access.sees_topic("t")
            assert find_acls(node.image, AclFilter()) == [_acl("u")]
            assert await _stored(node) == node.image

    asyncio.run(live())


def test_acls_are_known_after_a_restart(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            await create_acls(node.metadata, [_acl("t")])
        async with running(tmp_path, SETTINGS) as node:
            assert node.authorization.access(ALICE, "h").sees_topic("t")

    asyncio.run(live())


def test_a_password_is_stored_as_what_verifies_it(tmp_path: Path) -> None:
    salted = hashlib.pbkdf2_hmac("sha512", b"pw", b"salt", 4096)

    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            new = Upsertion("al/ice =,%", 2, 4096, b"salt", salted)
            assert await alter_credentials(node.metadata, [], [new]) == {new.user: None}
            kept = node.image.scram_credentials["SCRAM-SHA-512", new.user]
            client_key = hmac.digest(salted, b"Client Key", "sha512")
            assert kept.stored_key == hashlib.sha512(client_key).digest()
            assert (kept.salt, kept.iterations) == (b"salt", 4096)
            assert await _stored(node) == node.image
            both = Upsertion(new.user, 1, 8192, b"s", b"p")
            assert await alter_credentials(node.metadata, [], [both]) == {new.user: None}
            assert await alter_credentials(
                node.metadata, [CredentialDeletion(new.user, 2)], []
            ) == {new.user: None}
            assert list(node.image.scram_credentials) == [("SCRAM-SHA-256", new.user)]
            assert await alter_credentials(
                node.metadata, [CredentialDeletion(new.user, 1)], []
            ) == {new.user: None}
            assert user_names(node.image) == []
            assert await _stored(node) == node.image

    asyncio.run(live())


@pytest.mark.parametrize(
    ("deletions", "upsertions", "code", "text"),
    [
        ([CredentialDeletion("", 1)], [], 93, "Username must not be empty"),
        ([CredentialDeletion("a", 0)], [], 33, "Unknown SCRAM mechanism"),
        (
            [CredentialDeletion("a", 1)],
            [],
            91,
            "Attempt to delete a user credential that does not exist",
        ),
        ([], [Upsertion("a", 1, 4095, b"", b"")], 93, "Too few iterations"),
        ([], [Upsertion("a", 1, 16385, b"", b"")], 93, "Too many iterations"),
        (
            [],
            [Upsertion("a", 1, 4096, b"", b""), Upsertion("a", 2, 4096, b"", b"")],
            92,
            "A user credential cannot be altered twice in the same request",
        ),
    ],
)
def test_a_bad_credential_is_refused_in_kafkas_words(
    tmp_path: Path,
    deletions: list[CredentialDeletion],
    upsertions: list[Upsertion],
    code: int,
    text: str,
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            (problem,) = (await alter_credentials(node.metadata, deletions, upsertions)).values()
            assert problem is not None
            assert (problem.code, problem.message) == (code, text)
            assert not node.image.scram_credentials

    asyncio.run(live())


def test_quotas_of_an_entity_are_set_changed_and_removed(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            entity = Entity("alice", "")
            await alter_quotas(node.metadata, entity, {PRODUCE: 100.0}, validate_only=True)
            assert not node.image.quotas
            await alter_quotas(node.metadata, entity, {PRODUCE: 100.0}, validate_only=False)
            await alter_quotas(
                node.metadata, entity, {"request_percentage": 1.5}, validate_only=False
            )
            (kept,) = node.image.quotas.values()
            assert kept.values == {PRODUCE: 100.0, "request_percentage": 1.5}
            assert await _stored(node) == node.image
            gone = {PRODUCE: None, "request_percentage": None}
            await alter_quotas(node.metadata, entity, gone, validate_only=False)
            assert not node.image.quotas
            with pytest.raises(KafkaError):
                await alter_quotas(node.metadata, entity, {PRODUCE: -1.0}, validate_only=False)
            assert await _stored(node) == node.image

    asyncio.run(live())


def test_a_token_is_found_by_its_hmac_which_is_not_stored(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            token = DelegationToken("id", ALICE, ALICE, (Principal("User", "bob"),), 1, 2, 3)
            await keep_token(node.metadata, token)
            assert tokens_of(node.image) == [token]
            password = token_hmac("secret", "id")
            assert find_token(node.config, node.image, password) == token
            assert not any(password in each.value for each in await node.metadata.store.scan(""))
            assert await _stored(node) == node.image
            await remove_token(node.metadata, "id")
            with pytest.raises(KafkaError) as refusal:
                find_token(node.config, node.image, password)
            assert refusal.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    asyncio.run(live())
