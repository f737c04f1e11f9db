"""Ottla's authorizer beside Kafka's own StandardAuthorizer, on random ACLs: none may differ."""

from compat.checks import CheckError, check
from testkit.authorizing import difference
from testkit.process import BrokerProcess

DECISIONS = 100_000


@check("authorizer")
def decisions_are_those_of_StandardAuthorizer(_: BrokerProcess) -> str:  # noqa: N802 its name
    """Random ACLs, clients and resources."""
    differs = difference(DECISIONS, seed=20)
    if differs is not None:
        raise CheckError(differs)
    return f"{DECISIONS:,} decisions, 0 differ"
