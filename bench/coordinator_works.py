"""The works of the coordinators: commits of offsets, a rebalance, transactions.

Each is a function from the arena and the running servers to its rows; goals are the issue's.
"""

from contextlib import ExitStack

from bench import disk, topics
from bench.arena import Arena, Pair, Run, limit_of, timed
from bench.group_load import COMMITTERS, Group, commits, prepare
from bench.rows import Goal, Row
from bench.sizes import GROUP_SIZE, MESSAGE_BYTES, TRANSACTION_MESSAGES
from bench.stats import median
from testkit.server import Server

COMMIT = "commit of offsets"
REBALANCE = f"rebalance of {GROUP_SIZE} members"
TRANSACTIONS = f"transactions of {TRANSACTION_MESSAGES:,} messages"
AS_FAST = Goal(ratio_at_least=1.0)
TOPIC = "committed"


def commit(arena: Arena, pair: Pair) -> list[Row]:
    """Groups that commit one offset at a time, with several commits of each on their way."""
    groups = [b"group-%d" % number for number in range(COMMITTERS)]
    for server in pair:
        topics.create(server, TOPIC)
        prepare(server, groups, TOPIC.encode())

    def once(server: Server, _: int) -> Run:
        total = arena.sizes.commits
        return timed(server, lambda: commits(server, groups, TOPIC.encode(), total))

    kafka, ottla = arena.take_turns("commit", pair, once, _rate)
    return _rows(COMMIT, "commit", kafka, ottla)


def rebalance(arena: Arena, pair: Pair) -> list[Row]:
    """A classic group whose leader joins again: until every member has its new assignment."""
    with ExitStack() as stack:
        groups: dict[str, Group] = {}
        for server in pair:
            name = b"rebalanced"
            topics.create(server, "rebalanced")
            prepare(server, [name], b"rebalanced")
            group = stack.enter_context(Group(server, name, GROUP_SIZE))
            groups[server.bootstrap] = group
            arena.say(f"rebalance: {server.name} forms the group")
            group.form()

        def once(server: Server, _: int) -> float:
            group = groups[server.bootstrap]
            return median([group.rebalance() for _ in range(arena.sizes.rebalances)]) * 1e3

        kafka, ottla = arena.take_turns("rebalance", pair, once, lambda ms: f"{ms:.1f} ms")
    return [Row(REBALANCE, "time", "ms", kafka, ottla, Goal(ratio_at_most=1.0))]


def transactions(arena: Arena, pair: Pair) -> list[Row]:
    """One producer, one partition, transaction after transaction."""
    messages = arena.sizes.transactions * TRANSACTION_MESSAGES

    def once(server: Server, number: int) -> Run:
        topic = f"transactions-{number}"
        topics.create(server, topic)
        disk.settle(arena.folder, messages * MESSAGE_BYTES * 2)
        run = timed(
            server,
            lambda: arena.client.transactions(
                server,
                topic,
                messages=messages,
                size=MESSAGE_BYTES,
                run=TRANSACTION_MESSAGES,
            ),
        )
        topics.delete(server, topic)
        return run

    kafka, ottla = arena.take_turns("transactions", pair, once, _rate)
    return _rows(TRANSACTIONS, "message", kafka, ottla)


def _rows(work: str, what: str, kafka: list[Run], ottla: list[Run]) -> list[Row]:
    note = f"limit: {limit_of(kafka)} | {limit_of(ottla)}"
    rates = [run.rate for run in kafka], [run.rate for run in ottla]
    cpu = [run.cpu_us for run in kafka], [run.cpu_us for run in ottla]
    return [
        Row(work, "rate", "/s", *rates, AS_FAST, note),
        Row(work, f"broker CPU a {what}", "µs", *cpu),
    ]


def _rate(run: Run) -> str:
    return f"{run.rate:,.0f}/s, broker {run.cpu_us:.2f} µs each"
