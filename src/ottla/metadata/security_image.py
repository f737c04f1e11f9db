"""The part of the metadata image that is about security. Pure; `image.py` has the rules."""

from typing import TypeVar
from urllib.parse import unquote

import msgspec

from ottla.metadata import security_documents as documents
from ottla.metadata.documents import SCRAM, TOKENS
from ottla.metadata.security_documents import (
    AclDocument,
    QuotaDocument,
    ScramDocument,
    TokenDocument,
)
from ottla.metadata.store import Change

T = TypeVar("T")


class SecurityDelta(msgspec.Struct):
    """What one call of `apply` changed."""

    added_acls: list[AclDocument] = []
    removed_acls: list[AclDocument] = []
    changed_users: list[str] = []
    """Whose SCRAM credentials are other ones now, or gone."""
    removed_tokens: list[str] = []
    quotas_changed: bool = False

    def __bool__(self) -> bool:
        return bool(
            self.added_acls
            or self.removed_acls
            or self.changed_users
            or self.removed_tokens
            or self.quotas_changed
        )


class SecurityImage:
    """ACLs, credentials, quotas and tokens, by their keys, and the versions of their documents."""

    def __init__(self) -> None:
        self.acls: dict[str, AclDocument] = {}
        self.scram_credentials: dict[tuple[str, str], ScramDocument] = {}
        """By mechanism and user."""
        self.quotas: dict[str, QuotaDocument] = {}
        self.tokens: dict[str, TokenDocument] = {}
        """By id."""
        self.security_secret: bytes | None = None
        self.security_versions: dict[str, int] = {}
        """By key, of every document here but ACLs, which never change."""
        self._users: dict[str, list[str]] = {}

    def security_keys(self) -> list[str]:
        """The keys of all documents that are known."""
        return [*self.security_versions, *self.acls]

    def take_security(self, change: Change, delta: SecurityDelta) -> None:
        """Take in a change of a document, if it is one of these."""
        key = change.key
        if key.startswith(documents.ACLS):
            self._take_acl(change, delta)
        elif key.startswith(SCRAM):
            self._take_user(change, delta)
        elif key.startswith(documents.QUOTAS):
            _take(self.quotas, key, change.value, _QUOTA)
            delta.quotas_changed = True
        elif key.startswith(TOKENS):
            token_id = unquote(key.removeprefix(TOKENS))
            _take(self.tokens, token_id, change.value, _TOKEN)
            if change.value is None:
                delta.removed_tokens.append(token_id)
        elif key == documents.SECRET:
            found = None if change.value is None else _SECRET.decode(change.value)
            self.security_secret = None if found is None else found.value
        else:
            return
        if not key.startswith(documents.ACLS):
            if change.value is None:
                self.security_versions.pop(key, None)
            else:
                self.security_versions[key] = change.version

    def _take_acl(self, change: Change, delta: SecurityDelta) -> None:
        before = self.acls.pop(change.key, None)
        after = None if change.value is None else _ACL.decode(change.value)
        if after is not None:
            self.acls[change.key] = after
        if before == after:
            return
        if before is not None:
            _undo_or_note(before, delta.added_acls, delta.removed_acls)
        if after is not None:
            _undo_or_note(after, delta.removed_acls, delta.added_acls)

    def _take_user(self, change: Change, delta: SecurityDelta) -> None:
        name = unquote(change.key.removeprefix(SCRAM))
        for mechanism in self._users.pop(name, ()):
            del self.scram_credentials[mechanism, name]
        if change.value is not None:
            user = _USER.decode(change.value)
            self._users[name] = list(user.scram)
            for mechanism, credential in user.scram.items():
                self.scram_credentials[mechanism, name] = credential
        if name not in delta.changed_users:
            delta.changed_users.append(name)


def _undo_or_note(acl: AclDocument, undone: list[AclDocument], noted: list[AclDocument]) -> None:
    if acl in undone:
        undone.remove(acl)
    else:
        noted.append(acl)


def _take(
    known: dict[str, T], key: str, value: bytes | None, decoder: "msgspec.json.Decoder[T]"
) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = decoder.decode(value)


_ACL = msgspec.json.Decoder(AclDocument)
_QUOTA = msgspec.json.Decoder(QuotaDocument)
_TOKEN = msgspec.json.Decoder(TokenDocument)
_USER = msgspec.json.Decoder(documents.UserDocument)
_SECRET = msgspec.json.Decoder(documents.SecretDocument)
