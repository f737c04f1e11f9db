"""What one authorized check and one charge of a quota cost: Ottla's own code, without a broker."""

from collections.abc import Callable
from time import perf_counter

from bench.rows import Goal, Row
from ottla.security.acls import Acl
from ottla.security.authorizer import WRITE, Authorizer
from ottla.security.operations import Operation, PatternType, Permission, ResourceType
from ottla.security.principal import Principal
from ottla.security.quotas import Bucket
from ottla.security.rules import Rules

ACLS = 10_000
SAMPLES = 7
REPEATS = 100_000
WORK = f"authorized check, {ACLS:,} ACLs"
ALICE = Principal("User", "alice")
HOST = "10.0.0.7"


def rules() -> Rules:
    """Literal and prefixed ACLs of many users; some of them are of one, and one is a DENY."""
    patterns = (PatternType.LITERAL, PatternType.PREFIXED)
    names = ["*", "orders", *(f"team-{number}" for number in range(ACLS - 3))]
    acls = [
        Acl(
            ResourceType.TOPIC, name, patterns[number % 2], f"User:user-{number % 100}", "*",
            Operation.WRITE, Permission.ALLOW,
        )
        for number, name in enumerate(names)
    ]  # fmt: skip
    orders = (ResourceType.TOPIC, "orders.", PatternType.PREFIXED, str(ALICE), "*", Operation.WRITE)
    return Rules([*acls, Acl(*orders, Permission.ALLOW)])


def microseconds(work: Callable[[int], object], repeats: int = REPEATS) -> list[float]:
    """The time of each, by samples; the loop around it is not taken away."""
    samples = []
    for _ in range(SAMPLES):
        began = perf_counter()
        work(repeats)
        samples.append((perf_counter() - began) / repeats * 1e6)
    return samples


def rows() -> list[Row]:
    """The rows of the speed table."""
    authorizer = Authorizer(rules=rules())
    topics = authorizer.access(ALICE, HOST).topics
    topic = ResourceType.TOPIC
    bucket = Bucket(1e12, 1e13, 0.0)

    def cached(repeats: int) -> None:
        for _ in range(repeats):
            if not topics["orders.eu"] & WRITE:
                raise AssertionError

    def uncached(repeats: int) -> None:
        for _ in range(repeats):
            if not authorizer.bits(ALICE, HOST, topic, "orders.eu") & WRITE:
                raise AssertionError

    def charged(repeats: int) -> None:
        for number in range(repeats):
            bucket.take(200.0, number * 1e-4)

    return [
        Row(WORK, "asked before", "µs", [], microseconds(cached), Goal(below=0.2)),
        Row(WORK, "asked for the first time", "µs", [], microseconds(uncached), Goal(below=5.0)),
        Row("charge of a quota", "time", "µs", [], microseconds(charged), Goal(below=1.0)),
    ]


if __name__ == "__main__":
    for row in rows():
        print(f"{row.work}, {row.figure}: {row.cells()[1]}")
