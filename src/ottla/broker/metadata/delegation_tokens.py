"""Delegation tokens in the metadata: made, renewed, expired and swept."""

from __future__ import annotations

import asyncio

import structlog

from ottla.broker.context.clock import Clock
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.config import BrokerConfig
from ottla.metadata.documents import encode
from ottla.metadata.image import Image
from ottla.metadata.security_documents import TokenDocument, token_key
from ottla.metadata.store import Create, Delete, Op, StoreError, Update
from ottla.security.principal import parse_principal
from ottla.security.tokens import DelegationToken, token_hmac
from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()


def tokens_of(image: Image) -> list[DelegationToken]:
    """All tokens of the cluster."""
    return [_token(document) for document in image.tokens.values()]


def token_by_id(image: Image, token_id: str) -> DelegationToken | None:
    """The token with this id."""
    document = image.tokens.get(token_id)
    return None if document is None else _token(document)


def secret_of(config: BrokerConfig) -> str:
    """What tokens are made from; KafkaError where there are none."""
    secret = config.delegation_token_secret_key
    if not secret:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return secret


def find_token(config: BrokerConfig, image: Image, hmac: bytes) -> DelegationToken:
    """The token with this HMAC; raises KafkaError."""
    secret = secret_of(config)
    for token in tokens_of(image):
        if token_hmac(secret, token.id) == hmac:
            return token
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


async def keep_token(metadata: MetadataWriter, token: DelegationToken) -> None:
    """Store a token, or what has changed of it."""
    key = token_key(token.id)
    value = encode(_document(token))

    def decide(image: Image) -> tuple[None, list[Op]]:
        version = image.security_versions.get(key)
        return None, [Create(key, value) if version is None else Update(key, value, version)]

    await metadata.change(decide)


async def remove_token(metadata: MetadataWriter, token_id: str) -> None:
    """Remove a token, if it is there."""
    key = token_key(token_id)
    await metadata.change(
        lambda image: (None, [Delete(key)] if key in image.security_versions else [])
    )


async def sweep_tokens(
    config: DynamicConfig, clock: Clock, image: Image, metadata: MetadataWriter
) -> None:
    """Remove what has expired, again and again, for as long as the broker runs."""
    while True:
        await asyncio.sleep(config.current.delegation_token_expiry_check_interval_ms / 1000)
        for token in tokens_of(image):
            if token.is_over(clock.now_ms()):
                try:
                    await remove_token(metadata, token.id)
                except StoreError as problem:
                    log.warning(
                        "failed to delete an expired delegation token; retrying",
                        reason=str(problem),
                    )
                    break
                log.info("delegation token expired", token=token.id, owner=str(token.owner))


def _token(document: TokenDocument) -> DelegationToken:
    return DelegationToken(
        document.id,
        parse_principal(document.owner),
        parse_principal(document.requester),
        tuple(parse_principal(each) for each in document.renewers),
        document.issued_at,
        document.expires_at,
        document.max_at,
    )


def _document(token: DelegationToken) -> TokenDocument:
    return TokenDocument(
        token.id,
        str(token.owner),
        str(token.requester),
        [str(each) for each in token.renewers],
        token.issued_at,
        token.expires_at,
        token.max_at,
    )
