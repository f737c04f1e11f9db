"""The leader's arithmetic: high watermark, ISR, acknowledgements."""

from uuid import UUID

import pytest

from ottla.metadata.documents import BrokerEndpoint, PartitionState
from ottla.metadata.image import BrokerImage, PartitionImage
from ottla.metadata.isr_proposal import Proposal
from ottla.replication.read_replica import preferred_read_replica
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError

LAG = 100
EPOCHS = {1: 11, 2: 12, 3: 13}
BROKERS = {
    broker: BrokerImage(broker, epoch, [BrokerEndpoint("PLAIN", "h", 1)], f"rack {broker}")
    for broker, epoch in EPOCHS.items()
}


def state(
    isr: list[int], version: int = 0, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()
) -> PartitionImage:
    epochs = [EPOCHS[member] for member in isr]
    return PartitionImage(
        "t", 0, UUID(int=1), 1, 5, isr, version, version, epochs, [*adding], [*removing]
    )


def leadership(
    isr: list[int],
    *,
    log_end: int = 10,
    high_watermark: int = 10,
    min_isr: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
) -> Leadership:
    return Leadership(
        1,
        state(isr),
        replicas,
        log_end=log_end,
        high_watermark=high_watermark,
        min_isr=min_isr,
        lag=LAG,
        now=0,
    )


def fetch(
    term: Leadership, broker: int, offset: int, now: float = 1, epoch: int | None = None
) -> bool:
    broker_epoch = EPOCHS[broker] if epoch is None else epoch
    term.check_fetch(broker, broker_epoch, 5)
    return term.fetched(broker, broker_epoch, offset, 0, now)


def proposed(term: Leadership, now: float = 1) -> Proposal:
    proposal = term.propose(BROKERS, now)
    assert proposal is not None
    return proposal


def refusal(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code == code)


# The high watermark


def test_a_single_replica_commits_what_it_appends() -> None:
    term = leadership([1], replicas=(1,))
    assert term.appended(12)
    assert term.high_watermark == 12


def test_what_is_appended_is_committed_when_the_whole_isr_has_it() -> None:
    term = leadership([1, 2, 3])
    assert not term.appended(12)
    assert not fetch(term, 2, 12)
    assert not fetch(term, 3, 11) or term.high_watermark == 11
    assert fetch(term, 3, 12)
    assert term.high_watermark == 12


def test_a_replica_outside_the_isr_does_not_hold_the_high_watermark() -> None:
    term = leadership([1, 2])
    term.appended(12)
    assert fetch(term, 2, 12)
    assert term.high_watermark == 12


def test_a_new_leader_waits_until_every_member_has_asked() -> None:
    term = leadership([1, 2, 3], log_end=10, high_watermark=4)
    assert not fetch(term, 2, 10)
    assert term.high_watermark == 4
    assert fetch(term, 3, 8)
    assert term.high_watermark == 8


def test_the_high_watermark_does_not_go_back_with_a_follower() -> None:
    term = leadership([1, 2], log_end=10, high_watermark=10)
    assert not fetch(term, 2, 3)
    assert term.high_watermark == 10


def test_nothing_is_committed_below_the_least_isr() -> None:
    term = leadership([1], min_isr=2)
    assert not term.appended(12)
    assert term.high_watermark == 10
    assert term.learned(state([1, 2], version=1)) is False
    assert fetch(term, 2, 12)


def test_the_least_isr_is_at_most_all_replicas() -> None:
    term = leadership([1], min_isr=2, replicas=(1,))
    assert term.appended(12)


def test_a_fetch_past_the_end_is_out_of_range() -> None:
    with refusal(ErrorCode.OFFSET_OUT_OF_RANGE):
        fetch(leadership([1, 2]), 2, 11)


# Epochs


def test_fetches_of_another_term_are_refused() -> None:
    term = leadership([1, 2])
    with refusal(ErrorCode.FENCED_LEADER_EPOCH):
        term.check_fetch(2, 12, 4)
    with refusal(ErrorCode.UNKNOWN_LEADER_EPOCH):
        term.check_fetch(2, 12, 6)


def test_a_fetch_of_a_broker_that_is_not_a_replica_may_be_retried() -> None:
    with refusal(ErrorCode.UNKNOWN_LEADER_EPOCH):
        leadership([1]).check_fetch(7, 1, 5)


def test_a_fetch_with_an_old_broker_epoch_is_refused() -> None:
    term = leadership([1])
    fetch(term, 2, 3, epoch=20)
    with refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        fetch(term, 2, 10, epoch=12)
    with refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        fetch(leadership([1, 2]), 2, 10, epoch=11)


def test_a_member_that_bounced_does_not_count_until_it_has_joined_again() -> None:
    term = leadership([1, 2])
    term.appended(12)
    assert not fetch(term, 2, 12, epoch=20)
    assert term.high_watermark == 10
    proposal = proposed(term)
    assert proposal.state.isr == [1]
    assert term.accepted(proposal)
    assert term.high_watermark == 12


# The maximal ISR


def test_a_replica_being_added_counts_before_its_change_is_sent() -> None:
    term = leadership([1])
    fetch(term, 2, 10)
    proposal = proposed(term)
    assert proposal.state == PartitionState(UUID(int=1), 1, 5, [1, 2], 1, [11, 12])
    assert proposal.version == 0
    assert not term.appended(12)
    assert term.high_watermark == 10
    assert fetch(term, 2, 11)
    assert term.high_watermark == 11


def test_a_replica_being_removed_counts_until_its_change_has_succeeded() -> None:
    term = leadership([1, 2])
    term.appended(12)
    proposal = proposed(term, now=LAG + 1)
    assert proposal.state.isr == [1]
    assert not term.appended(13)
    assert term.high_watermark == 10
    assert term.accepted(proposal)
    assert term.high_watermark == 13
    assert term.isr == {1: 11}


def test_a_refused_change_did_not_happen_and_the_next_waits_for_news() -> None:
    term = leadership([1])
    fetch(term, 2, 10)
    proposal = proposed(term)
    term.appended(12)
    assert term.refused(proposal)
    assert term.high_watermark == 12
    fetch(term, 2, 12)
    assert term.propose(BROKERS, 2) is None
    term.learned(state([1], version=1))
    assert proposed(term, 3).version == 1


def test_an_unknown_addition_counts_until_it_is_decided() -> None:
    term = leadership([1])
    fetch(term, 2, 10)
    proposal = proposed(term)
    term.unknown(proposal)
    assert not term.appended(12)
    again = proposed(term, now=2 * LAG)
    assert again.state.isr == [1], "it has fallen behind meanwhile"
    assert again.version == proposal.version
    assert term.high_watermark == 10
    assert term.accepted(again)
    assert term.high_watermark == 12
    assert term.undecided is False


def test_an_unknown_addition_that_happened_is_learned() -> None:
    term = leadership([1])
    fetch(term, 2, 10)
    term.unknown(proposed(term))
    again = proposed(term)
    assert not term.refused(again)
    term.appended(12)
    assert term.high_watermark == 10
    term.learned(state([1, 2], version=1))
    assert term.isr == {1: 11, 2: 12}
    assert fetch(term, 2, 12)


def test_an_unknown_removal_counts_until_it_is_decided() -> None:
    term = leadership([1, 2])
    term.appended(12)
    term.unknown(proposed(term, now=LAG + 1))
    assert term.high_watermark == 10
    assert term.learned(state([1], version=1))
    assert term.high_watermark == 12


def test_one_change_is_on_its_way_at_a_time() -> None:
    term = leadership([1])
    fetch(term, 2, 10)
    proposed(term)
    fetch(term, 3, 10)
    assert term.propose(BROKERS, 1) is None


def test_an_outcome_that_is_older_than_what_was_learned_changes_nothing() -> None:
    term = leadership([1])
    fetch(term, 2, 10)
    proposal = proposed(term)
    term.learned(state([1, 2], version=1))
    term.learned(state([1], version=2))
    assert not term.accepted(proposal)
    assert not term.refused(proposal)
    assert term.isr == {1: 11}


def test_two_undecided_epochs_of_a_replica_both_hold_the_high_watermark() -> None:
    term = leadership([1])
    fetch(term, 2, 10)
    term.unknown(proposed(term))
    fetch(term, 2, 10, epoch=20)
    newer = {**BROKERS, 2: BrokerImage(2, 20, [], None)}
    assert term.propose(newer, 2) is not None
    term.appended(12)
    assert not fetch(term, 2, 12, epoch=20)
    assert term.high_watermark == 10


# Joining and leaving


def test_a_follower_that_lacks_committed_records_does_not_join() -> None:
    term = leadership([1])
    fetch(term, 2, 9)
    assert term.propose(BROKERS, 1) is None


def test_a_follower_that_lacks_records_from_before_this_term_does_not_join() -> None:
    term = leadership([1, 3], log_end=10, high_watermark=4)
    fetch(term, 2, 6)
    assert not term.may_join(2, BROKERS, 1)
    fetch(term, 2, 10)
    assert term.may_join(2, BROKERS, 1)


def test_only_a_registered_epoch_that_is_not_shutting_down_joins() -> None:
    term = leadership([1])
    fetch(term, 2, 10)
    assert term.may_join(2, BROKERS, 1)
    assert not term.may_join(2, {}, 1)
    assert not term.may_join(2, {2: BrokerImage(2, 99, [], None)}, 1)
    assert not term.may_join(2, {2: BrokerImage(2, 12, [], None, shutting_down=True)}, 1)


def test_a_follower_that_fetched_everything_stays_in_the_isr() -> None:
    term = leadership([1, 2], log_end=10)
    for now in range(0, 10 * LAG, LAG // 2):
        fetch(term, 2, term.log_end - 1, now)
        term.appended(term.log_end + 1)
        fetch(term, 2, term.log_end - 1, now + 1)
        assert term.propose(BROKERS, now + 1) is None


def test_a_follower_that_never_catches_up_leaves() -> None:
    term = leadership([1, 2], log_end=1000, high_watermark=0)
    for now in range(0, LAG + 1, 10):
        fetch(term, 2, now, now)
        assert term.propose(BROKERS, now) is None
    fetch(term, 2, LAG, LAG + 1)
    assert proposed(term, LAG + 1).state.isr == [1]


def test_an_idle_follower_of_an_idle_partition_stays() -> None:
    term = leadership([1, 2])
    fetch(term, 2, 10)
    assert term.propose(BROKERS, 100 * LAG) is None


def test_a_follower_that_was_caught_up_has_the_whole_lag_time_from_then_on() -> None:
    term = leadership([1, 2])
    fetch(term, 2, 10, now=0)
    term.passes(10 * LAG)
    term.appended(11)
    assert term.propose(BROKERS, 11 * LAG) is None
    assert proposed(term, 11 * LAG + 1).state.isr == [1]


def test_a_follower_that_lacks_records_leaves_with_time() -> None:
    term = leadership([1, 2, 3])
    fetch(term, 2, 10, now=0)
    fetch(term, 3, 10, now=0)
    term.appended(11)
    fetch(term, 3, 11, now=1)
    for now in range(1, LAG + 2, 10):
        term.passes(now)
    assert proposed(term, LAG + 1).state.isr == [1, 3]


def test_time_says_nothing_of_a_follower_that_has_not_fetched_in_this_term() -> None:
    term = leadership([1, 2], log_end=10)
    term.passes(LAG)
    assert proposed(term, LAG + 1).state.isr == [1]


def test_a_new_leader_gives_the_isr_time_to_ask() -> None:
    term = leadership([1, 2])
    assert term.propose(BROKERS, LAG) is None
    assert proposed(term, LAG + 1).state.isr == [1]


def test_a_replica_that_is_assigned_later_may_join() -> None:
    term = leadership([1], replicas=(1,))
    term.assigned((1, 2), now=1)
    fetch(term, 2, 10)
    assert proposed(term).state.isr == [1, 2]


def test_a_reassignment_continues_with_a_change_of_the_isr() -> None:
    term = leadership([1])
    moving = PartitionImage("t", 0, UUID(int=1), 1, 5, [1], 1, 1, [11], [2], [3])
    term.learned(moving)
    fetch(term, 2, 10)
    assert (proposed(term).state.adding, proposed_removing(term)) == ([2], [3])


def proposed_removing(term: Leadership) -> list[int]:
    assert term._in_flight is not None
    return term._in_flight.state.removing


# Answers


def test_too_few_in_sync_take_no_acks_all() -> None:
    term = leadership([1], min_isr=2)
    with refusal(ErrorCode.NOT_ENOUGH_REPLICAS):
        term.check_enough()
    leadership([1, 2], min_isr=2).check_enough()


def test_acks_all_is_answered_when_the_records_are_committed() -> None:
    term = leadership([1, 2], min_isr=2)
    term.appended(12)
    assert term.acknowledgement(12) is None
    fetch(term, 2, 11)
    assert term.acknowledgement(12) is None
    fetch(term, 2, 12)
    assert term.acknowledgement(12) == ErrorCode.NONE


def test_acks_all_fails_when_too_few_are_in_sync_after_the_append() -> None:
    term = leadership([1, 2], min_isr=2)
    term.appended(12)
    fetch(term, 2, 12)
    term.learned(state([1], version=1))
    assert term.acknowledgement(12) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_latest_is_not_available_until_this_term_knows_what_was_committed() -> None:
    term = leadership([1, 2], log_end=10, high_watermark=4)
    with refusal(ErrorCode.OFFSET_NOT_AVAILABLE):
        term.check_latest()
    fetch(term, 2, 9)
    with refusal(ErrorCode.OFFSET_NOT_AVAILABLE):
        term.check_latest()
    fetch(term, 2, 10)
    term.check_latest()


def test_the_low_watermark_waits_for_live_replicas() -> None:
    term = leadership([1, 2, 3])
    term.fetched(2, 12, 10, 3, 1)
    assert term.low_watermark(7, [1, 2]) == 3
    assert term.low_watermark(7, [1, 2, 3]) == -1, "3 has not said where its log starts"
    assert term.low_watermark(7, [1]) == 7


# The nearest replica


def nearest(term: Leadership, rack: str, offset: int = 8, listener: str = "PLAIN") -> int | None:
    return preferred_read_replica(term, rack, offset, BROKERS, listener)


def test_a_consumer_is_sent_to_a_replica_in_its_rack() -> None:
    term = leadership([1, 2, 3])
    fetch(term, 2, 10)
    assert nearest(term, "rack 2") == 2


def test_a_consumer_stays_where_no_other_serves_it() -> None:
    term = leadership([1, 2, 3])
    fetch(term, 2, 7)
    assert nearest(term, "rack 1") is None, "the leader's rack"
    assert nearest(term, "") is None, "no rack"
    assert nearest(term, "rack 3") is None, "it has not asked yet"
    assert nearest(term, "rack 2", offset=8) is None, "it has not got so far"
    assert nearest(term, "rack 2", offset=7, listener="SSL") is None, "no such listener there"
    assert nearest(leadership([1]), "rack 2") is None, "not in sync"
