"""A member of a consumer group on its way to its target: first give, then take."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla.coordinator.consumer.assignment import Assignment
from ottla.coordinator.consumer.member import ConsumerMember, MemberState, Owned
from ottla.coordinator.consumer.reconcile import Reconciliation
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions

A, B = UUID(int=1), UUID(int=2)
STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def advance(
    member: ConsumerMember,
    target: Assignment,
    *,
    epoch: int = 5,
    owned: dict[UUID, list[int]] | None = None,
    others: Owned | None = None,
    subscribed: frozenset[UUID] = frozenset({A, B}),
    changed: bool = False,
) -> ConsumerMember:
    owners = others or {}

    def owner_of(topic_id: UUID, partition: int) -> str | None:
        if partition in owners.get(topic_id, {}):
            return "other"
        mine = member.assigned.get(topic_id, {}), member.pending_revocation.get(topic_id, {})
        return member.member_id if any(partition in part for part in mine) else None

    reported = None
    if owned is not None:
        reported = [TopicPartitions(topic_id=key, partitions=part) for key, part in owned.items()]
    return Reconciliation(epoch, target, subscribed, changed, reported, owner_of).advance(member)


def member(
    epoch: int = 4,
    state: MemberState = STABLE,
    assigned: Owned | None = None,
    revoking: Owned | None = None,
) -> ConsumerMember:
    return ConsumerMember(
        "m",
        member_epoch=epoch,
        state=state,
        assigned=assigned or {},
        pending_revocation=revoking or {},
    )


def test_a_member_that_has_its_target_stays_as_it_is() -> None:
    done = member(epoch=5, assigned={A: {0: 3}})
    assert advance(done, {A: frozenset({0})}) is done


def test_free_partitions_are_given_at_once_in_the_new_epoch() -> None:
    after = advance(member(assigned={A: {0: 3}}), {A: frozenset({0, 1})})
    assert (after.state, after.member_epoch, after.previous_member_epoch) == (STABLE, 5, 4)
    assert after.assigned == {A: {0: 3, 1: 5}}


def test_a_member_stays_in_its_epoch_until_it_has_given_up() -> None:
    after = advance(member(assigned={A: {0: 3, 1: 3}}), {A: frozenset({1, 2})}, owned={A: [0, 1]})
    assert (after.state, after.member_epoch) == (UNREVOKED, 4)
    assert (after.assigned, after.pending_revocation) == ({A: {1: 3}}, {A: {0: 3}})
    assert advance(after, {A: frozenset({1, 2})}, owned={A: [0, 1]}) is after
    done = advance(after, {A: frozenset({1, 2})}, owned={A: [1]})
    assert (done.state, done.member_epoch, done.assigned) == (STABLE, 5, {A: {1: 3, 2: 5}})
    assert done.pending_revocation == {}


def test_a_heartbeat_without_partitions_gives_nothing_up() -> None:
    waiting = member(state=UNREVOKED, assigned={A: {1: 3}}, revoking={A: {0: 3}})
    assert advance(waiting, {A: frozenset({1})}, owned=None) is waiting


def test_what_a_member_does_not_own_any_longer_needs_no_giving_up() -> None:
    after = advance(member(assigned={A: {0: 3}}), {A: frozenset({1})}, owned={})
    assert (after.state, after.assigned) == (STABLE, {A: {1: 5}})


def test_a_member_waits_for_what_others_have_with_what_is_free() -> None:
    after = advance(member(), {A: frozenset({0, 1})}, others={A: {0: 4}})
    assert (after.state, after.member_epoch, after.assigned) == (UNRELEASED, 5, {A: {1: 5}})
    still = advance(after, {A: frozenset({0, 1})}, others={A: {0: 4}})
    assert still.assigned == after.assigned
    done = advance(after, {A: frozenset({0, 1})})
    assert (done.state, done.assigned) == (STABLE, {A: {0: 5, 1: 5}})


def test_a_member_that_waits_follows_a_newer_target() -> None:
    waiting = replace(member(epoch=5), state=UNRELEASED)
    after = advance(waiting, {B: frozenset({0})}, epoch=6)
    assert (after.state, after.member_epoch, after.assigned) == (STABLE, 6, {B: {0: 6}})


def test_a_partition_that_comes_back_while_it_is_given_up_is_kept() -> None:
    revoking = member(state=UNREVOKED, revoking={A: {0: 3}})
    after = advance(revoking, {A: frozenset({0})}, owned={})
    assert (after.state, after.assigned) == (STABLE, {A: {0: 5}})


def test_partitions_of_a_topic_that_was_left_go_before_there_is_a_new_target() -> None:
    stable = member(epoch=5, assigned={A: {0: 3}, B: {0: 3}})
    after = advance(
        stable,
        {A: frozenset({0}), B: frozenset({0})},
        owned={A: [0], B: [0]},
        subscribed=frozenset({A}),
        changed=True,
    )
    assert (after.state, after.member_epoch) == (UNREVOKED, 5)
    assert (after.assigned, after.pending_revocation) == ({A: {0: 3}}, {B: {0: 3}})


def test_a_topic_that_was_left_and_given_up_needs_no_revocation() -> None:
    stable = member(epoch=5, assigned={A: {0: 3}, B: {0: 3}})
    after = advance(stable, {}, owned={A: [0]}, subscribed=frozenset({A}), changed=True)
    assert (after.state, after.assigned, after.pending_revocation) == (STABLE, {A: {0: 3}}, {})


def test_more_is_revoked_from_a_member_that_leaves_a_topic_while_it_revokes() -> None:
    revoking = member(state=UNREVOKED, assigned={B: {0: 3}}, revoking={A: {0: 3}})
    after = advance(revoking, {}, owned={A: [0], B: [0]}, subscribed=frozenset({A}), changed=True)
    assert (after.state, after.assigned) == (UNREVOKED, {})
    assert after.pending_revocation == {A: {0: 3}, B: {0: 3}}


def test_an_old_target_does_not_give_topics_that_were_left() -> None:
    after = advance(member(), {A: frozenset({0}), B: frozenset({0})}, subscribed=frozenset({A}))
    assert after.assigned == {A: {0: 5}}


def test_a_member_in_a_state_that_nobody_knows_must_start_from_nothing() -> None:
    strange = member(state=MemberState.UNKNOWN)
    with pytest.raises(KafkaError) as problem:
        advance(strange, {A: frozenset({0})}, owned={A: [0]})
    assert problem.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert advance(strange, {A: frozenset({0})}, owned={}).assigned == {A: {0: 5}}
