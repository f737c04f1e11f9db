"""Decisions are those of Kafka's own StandardAuthorizer; `python -m compat` makes many more."""

import pytest

from testkit import java_runtime, kafka
from testkit.authorizing import difference

NEEDED = java_runtime.is_installed() and kafka.has_jars(java_runtime.WORK)


# The jars are downloaded by `make compat` and `make bench`; the default tests download nothing.
@pytest.mark.skipif(not NEEDED, reason="needs a JDK and Kafka's jars")
def test_random_decisions_are_those_of_standard_authorizer() -> None:
    assert difference(5_000, seed=4) is None
