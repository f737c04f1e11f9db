"""The decisions of a cluster hold under faults, and the simulation would notice if they did not."""

from itertools import chain

import pytest

from .mutations import MUTATIONS
from .run import first_failure, simulate
from .world import Violation

SEEDS = range(300)
SEEDS_UNTIL_A_BROKEN_RULE_SHOWS = range(5000)

# Where each broken rule shows first, found by trying; when the simulation changes they may move,
# and the test looks for another.
SHOWS_AT = {
    "1 forgets the removed at once": 5,
    "1 counts the added late": 3,
    "1 takes unknown for no": 68,
    "2 takes any leader epoch": 25,
    "2 joins by a former life": 59,
    "2 takes any answer": 1857,
    "2 truncates to the high watermark": 5,
    "2 fetches while it leads": 15,
    "3 commits unchecked": 153,
    "3 elects anyone": 21,
    "4 trusts forever": 1,
    "4 counts from the answer": 11,
    "4 has no margin": 11,
    "5 trusts the bounced": 1,
    "5 leads after a bounce": 1,
    "5 leads with a new disk": 73,
    "5 leads without its page cache": 47,
}


def test_no_promise_is_broken() -> None:
    acknowledged = read = terms = 0
    for seed in SEEDS:
        try:
            summary = simulate(seed)
        except Violation as violation:
            pytest.fail(f"{violation}; see python -m tests.simulation --seed {seed} --trace")
        acknowledged += summary.acknowledged
        read += summary.read
        terms += summary.terms
    assert acknowledged > 50 * len(SEEDS), "the cluster hardly worked"
    assert read > 50 * len(SEEDS), "nobody read"
    assert terms > 3 * len(SEEDS), "leaders hardly changed"


def test_a_seed_replays_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    first = simulate(7, trace=True)
    told = capsys.readouterr().out
    assert simulate(7, trace=True) == first
    assert capsys.readouterr().out == told


@pytest.mark.parametrize("rule", MUTATIONS)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    seeds = chain([SHOWS_AT.get(rule, 0)], SEEDS_UNTIL_A_BROKEN_RULE_SHOWS)
    assert first_failure(seeds, MUTATIONS[rule]) is not None
