"""Delegation tokens as SCRAM credentials: the user is the token's id, the password its HMAC.

Rules kept here:
1. Only a token that is in the metadata and has not expired lets a client in, and only as a user.
2. The credential of a token is derived, not stored. It takes milliseconds, so the last ones are
   kept. Its salt is the one that an unknown token gets: a challenge does not tell them apart.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Final

from ottla.broker.context.clock import Clock
from ottla.broker.metadata.delegation_tokens import token_by_id
from ottla.config import BrokerConfig
from ottla.metadata.image import Image
from ottla.security.principal import USER
from ottla.security.scram import ScramCredential, TokenLogin, fake_credential, new_credential
from ottla.security.tokens import token_hmac

MOST_KEPT: Final = 1024


class TokenLogins:
    """Finds what a client that logs in with a token must prove."""

    def __init__(
        self, config: BrokerConfig, image: Image, clock: Clock, salts: Callable[[], bytes]
    ) -> None:
        """`salts` is the cluster's secret from which salts are derived."""
        self._secret = config.delegation_token_secret_key
        self._image = image
        self._clock = clock
        self._salts = salts
        self._kept: dict[tuple[str, str, bytes], ScramCredential] = {}

    def find(self, mechanism: str, token_id: str) -> TokenLogin | None:
        """The login of a valid token."""
        token = token_by_id(self._image, token_id)
        if not self._secret or token is None or token.is_over(self._clock.now_ms()):
            return None
        if token.owner.kind != USER:
            return None
        credential = self._credential(self._secret, mechanism, token_id)
        return TokenLogin(token.owner.name, credential, min(token.expires_at, token.max_at))

    def _credential(self, secret: str, mechanism: str, token_id: str) -> ScramCredential:
        salts = self._salts()
        key = (mechanism, token_id, salts)
        found = self._kept.get(key)
        if found is None:
            like = fake_credential(mechanism, token_id, salts)
            password = b64encode(token_hmac(secret, token_id)).decode()
            found = new_credential(mechanism, password, like.iterations, like.salt)
            if len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = found
        return found
