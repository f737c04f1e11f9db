"""The client's side of a login: which mechanism, with which credentials. Pure."""

from typing import Final

from ottla.config.errors import ConfigError
from ottla.security.kerberos import GSSAPI, KerberosLogin
from ottla.security.mechanism import ClientMechanism
from ottla.security.oauthbearer import OAUTHBEARER, OauthBearerClient
from ottla.security.plain import PLAIN, PlainClient
from ottla.security.private import PRIVATE_HASH, PRIVATE_MECHANISMS
from ottla.security.scram import HASHES, TOKEN_EXTENSION, ScramClient

SUPPORTED: Final = (*HASHES, PLAIN, OAUTHBEARER, GSSAPI)


def check_mechanism(mechanism: str) -> None:
    """Whether there is such a mechanism; raises ConfigError."""
    if mechanism not in (*SUPPORTED, *PRIVATE_MECHANISMS):
        raise ConfigError(
            f"SASL mechanism {mechanism} is not supported; use one of {', '.join(SUPPORTED)}"
        )


def new_client(
    mechanism: str, user: str, password: str, *, by_token: bool = False
) -> ClientMechanism:
    """A login; for OAUTHBEARER the password is the token. Raises ConfigError.

    `by_token`: user and password are the id and the HMAC of a delegation token.
    """
    if mechanism in PRIVATE_MECHANISMS:
        return ScramClient(PRIVATE_HASH, user, password)
    if mechanism in HASHES:
        extension = f"{TOKEN_EXTENSION}=true" if by_token else ""
        return ScramClient(mechanism, user, password, extension)
    if mechanism == PLAIN:
        return PlainClient(user, password)
    if mechanism == OAUTHBEARER:
        return OauthBearerClient(password)
    check_mechanism(mechanism)
    raise ConfigError(f"{mechanism} knows neither passwords nor tokens")


def new_kerberos_client(login: KerberosLogin, host: str) -> ClientMechanism:
    """A login with a ticket for the service of a host; raises ConfigError without the library."""
    from ottla.security.gssapi import GssapiClient

    return GssapiClient(login, host)
