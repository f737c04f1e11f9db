"""Users, ACLs and quotas: what an administrator asks a cluster about security.

A password is salted here: the broker never sees it (KIP-554).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.cluster import Client
from ottla.client.errors import check
from ottla.security.acls import Acl, AclFilter
from ottla.security.operations import Operation, PatternType, Permission, ResourceType
from ottla.security.quotas import Entity, parts_of
from ottla.security.scram import random_salt
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

MECHANISMS: Final[Mapping[str, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS: Final = 4096


class ScramUser(NamedTuple):
    """Who can log in, and the iterations of each SCRAM mechanism."""

    name: str
    mechanisms: dict[str, int]


class SecurityAdmin:
    """Asks and changes what a cluster knows of users, ACLs and quotas."""

    def __init__(self, client: Client) -> None:
        self._client = client

    # Users --------------------------------------------------------------------------------

    def users(self) -> list[ScramUser]:
        """All who have SCRAM credentials."""
        request = DescribeUserScramCredentialsRequest(users=None)
        reply = self._client.call(request, DescribeUserScramCredentialsResponse)
        check(reply.error_code, reply.error_message)
        names = {number: name for name, number in MECHANISMS.items()}
        return [
            ScramUser(
                each.user,
                {
                    names.get(info.mechanism, str(info.mechanism)): info.iterations
                    for info in each.credential_infos
                },
            )
            for each in reply.results
        ]

    def set_password(self, user: str, password: str, mechanism: str) -> None:
        """Let a user log in with a password; replaces the one for this mechanism."""
        salt = random_salt()
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, ITERATIONS)
        self._alter(
            AlterUserScramCredentialsRequest(
                upsertions=[
                    ScramCredentialUpsertion(
                        name=user,
                        mechanism=MECHANISMS[mechanism],
                        iterations=ITERATIONS,
                        salt=salt,
                        salted_password=salted,
                    )
                ]
            )
        )

    def remove_credential(self, user: str, mechanism: str) -> None:
        """Remove a user's credential for this mechanism."""
        number = MECHANISMS[mechanism]
        self._alter(
            AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion(name=user, mechanism=number)]
            )
        )

    def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        reply = self._client.call(request, AlterUserScramCredentialsResponse)
        for each in reply.results:
            check(each.error_code, each.error_message, f"user {each.user}")

    # ACLs ---------------------------------------------------------------------------------

    def acls(self, wanted: AclFilter) -> list[Acl]:
        """The ACLs that a filter matches."""
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        reply = self._client.call(request, DescribeAclsResponse)
        check(reply.error_code, reply.error_message)
        return [
            Acl(
                ResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
                acl.principal,
                acl.host,
                Operation(acl.operation),
                Permission(acl.permission_type),
            )
            for resource in reply.resources
            for acl in resource.acls
        ]

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Create ACLs; those that exist stay."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ]
        )
        reply = self._client.call(request, CreateAclsResponse)
        for acl, result in zip(acls, reply.results, strict=True):
            check(result.error_code, result.error_message, str(acl))

    def delete_acls(self, wanted: AclFilter) -> int:
        """Delete what a filter matches; how many those were."""
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=wanted.resource_type,
                    resource_name_filter=wanted.name,
                    pattern_type_filter=wanted.pattern_type,
                    principal_filter=wanted.principal,
                    host_filter=wanted.host,
                    operation=wanted.operation,
                    permission_type=wanted.permission,
                )
            ]
        )
        reply = self._client.call(request, DeleteAclsResponse)
        for result in reply.filter_results:
            check(result.error_code, result.error_message)
        return sum(len(result.matching_acls) for result in reply.filter_results)

    # Quotas -------------------------------------------------------------------------------

    def quotas(self) -> list[tuple[Entity, dict[str, float]]]:
        """All quotas."""
        reply = self._client.call(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
        check(reply.error_code, reply.error_message)
        found: list[tuple[Entity, dict[str, float]]] = []
        for entry in reply.entries or ():
            named = {part.entity_type: part.entity_name or "" for part in entry.entity}
            entity = Entity(named.get("user"), named.get("client-id"), named.get("ip"))
            found.append((entity, {each.key: each.value for each in entry.values}))
        return found

    def alter_quotas(self, entity: Entity, values: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, or remove those whose value is None."""
        request = AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData(
                    entity=[
                        EntityData(entity_type=kind, entity_name=name)
                        for kind, name in parts_of(entity)
                    ],
                    ops=[
                        OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in values.items()
                    ],
                )
            ]
        )
        reply = self._client.call(request, AlterClientQuotasResponse)
        for entry in reply.entries:
            check(entry.error_code, entry.error_message)
