"""Documents about security: ACLs, SCRAM credentials, client quotas, delegation tokens, a secret.

One document for each ACL, user, quota entity and token, so that two brokers that change different
ones never conflict. Names in keys are percent-encoded: they may have any character in them.
"""

from urllib.parse import quote

import msgspec

from ottla.metadata.documents import SCRAM, SECURITY, TOKENS

ACLS = "acls/"
QUOTAS = "quotas/"
SECRET = f"{SECURITY}secret"


class AclDocument(msgspec.Struct, frozen=True):
    """One ACL, with Kafka's numbers."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class ScramDocument(msgspec.Struct, frozen=True):
    """What a broker keeps of a password; it verifies one, and cannot be used to log in."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramDocument([hidden], iterations={self.iterations})"


class UserDocument(msgspec.Struct, frozen=True):
    """A user's credentials, by SCRAM mechanism."""

    name: str
    scram: dict[str, ScramDocument]


class QuotaDocument(msgspec.Struct, frozen=True):
    """The quotas of an entity; a type that is not named is None, its default is empty."""

    user: str | None
    client_id: str | None
    ip: str | None
    values: dict[str, float]


class TokenDocument(msgspec.Struct, frozen=True):
    """A delegation token without its HMAC; principals are texts such as `User:alice`."""

    id: str
    owner: str
    requester: str
    renewers: list[str]
    issued_at: int
    expires_at: int
    max_at: int


class SecretDocument(msgspec.Struct, frozen=True):
    """Random bytes of the cluster: what unknown users are answered with is made from them."""

    value: bytes

    def __repr__(self) -> str:
        return "SecretDocument([hidden])"


def acl_key(digest: str) -> str:
    """The key of an ACL, by the digest of what it says."""
    return f"{ACLS}{digest}"


def user_key(name: str) -> str:
    """The key of a user's credentials."""
    return SCRAM + quote(name, safe="")


def quota_key(user: str | None, client_id: str | None, ip: str | None) -> str:
    """The key of an entity's quotas."""
    return QUOTAS + quote(msgspec.json.encode([user, client_id, ip]), safe="")


def token_key(token_id: str) -> str:
    """The key of a delegation token."""
    return TOKENS + quote(token_id, safe="")
