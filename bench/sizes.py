"""How much work a run does: the full set stays under 25 minutes, the quick one under 4."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amounts of every work; times are in seconds."""

    rounds: int
    warm_up: int  # rounds that are run and not counted: the JVM compiles while it runs
    batched: int  # messages of a batched round
    unbatched: int
    latency_seconds: int
    many_partitions: int
    partition_seconds: int  # the longest a round over partitions may take
    history: int  # messages of the log that the stalls are made with
    stall_seconds: int
    stall_rounds: int
    commits: int  # of a round
    rebalances: int
    transactions: int
    shared: int  # messages that a share group reads in a round
    replicated: int  # messages of a round with three brokers
    failovers: int
    cluster_partitions: int
    start_partitions: int
    starts: int


MESSAGE_BYTES = 200
FEW_PARTITIONS = 10
LATENCY_RATE = 200  # messages a second
HISTORY_BYTES = 1_000  # of a message of the stalls' log
HISTORY_PARTITIONS = 4
SCANNERS = 3
GROUP_SIZE = 100  # members of the group that rebalances
TRANSACTION_MESSAGES = 1_000
IDLE_CONNECTIONS = 5_000

FULL = Sizes(
    rounds=5,
    warm_up=3,
    batched=3_000_000,
    unbatched=40_000,
    latency_seconds=10,
    many_partitions=10_000,
    partition_seconds=4,
    history=2_000_000,
    stall_seconds=10,
    stall_rounds=3,
    commits=60_000,
    rebalances=100,
    transactions=400,
    shared=1_000_000,
    replicated=1_500_000,
    failovers=3,
    cluster_partitions=3_000,
    start_partitions=10_000,
    starts=3,
)
QUICK = Sizes(
    rounds=3,
    warm_up=2,
    batched=1_000_000,
    unbatched=10_000,
    latency_seconds=2,
    many_partitions=500,
    partition_seconds=3,
    history=500_000,
    stall_seconds=2,
    stall_rounds=1,
    commits=20_000,
    rebalances=10,
    transactions=100,
    shared=300_000,
    replicated=500_000,
    failovers=1,
    cluster_partitions=300,
    start_partitions=1_000,
    starts=1,
)
