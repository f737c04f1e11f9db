"""The client's side of a login: which mechanism, with which credentials. Pure."""

from ottla.config.errors import ConfigError
from ottla.security.mechanism import ClientMechanism
from ottla.security.oauthbearer import OAUTHBEARER, OauthBearerClient
from ottla.security.plain import PLAIN, PlainClient
from ottla.security.scram import HASHES, ScramClient


def new_client(mechanism: str, user: str, password: str) -> ClientMechanism:
    """A login; for OAUTHBEARER the password is the token. Raises ConfigError."""
    if mechanism in HASHES:
        return ScramClient(mechanism, user, password)
    if mechanism == PLAIN:
        return PlainClient(user, password)
    if mechanism == OAUTHBEARER:
        return OauthBearerClient(password)
    raise ConfigError(
        f"SASL mechanism {mechanism} is not supported; use one of "
        f"{', '.join((*HASHES, PLAIN, OAUTHBEARER))}"
    )
