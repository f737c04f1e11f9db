"""Which faults come: decided by the seed alone."""

from itertools import islice

from faults.plan import OF_DATA, ZOOKEEPER_ROLES, Kind, steps

MANY = 2000


def test_a_seed_is_one_sequence_of_faults() -> None:
    assert list(islice(steps(7, True), MANY)) == list(islice(steps(7, True), MANY))
    assert list(islice(steps(7, True), MANY)) != list(islice(steps(8, True), MANY))


def test_every_kind_of_fault_comes_to_brokers_and_to_zookeeper() -> None:
    faults = [fault for step in islice(steps(1, True), MANY) for fault in step.faults]
    assert {one.kind for one in faults if one.role not in ZOOKEEPER_ROLES} == set(Kind)
    of_servers = {one.kind for one in faults if one.role in ZOOKEEPER_ROLES}
    assert of_servers == {Kind.KILL, Kind.PAUSE, Kind.CUT, Kind.DISK}


def test_at_most_two_are_hurt_at_once_and_two_sometimes() -> None:
    assert {len(step.faults) for step in islice(steps(1, True), MANY)} == {1, 2}


def test_only_faults_of_one_are_bounded() -> None:
    for step in islice(steps(1, True), MANY):
        assert not (step.is_bounded(True) and len(step.faults) > 1)


def test_without_zookeeper_nothing_happens_to_it() -> None:
    faults = [fault for step in islice(steps(1, False), MANY) for fault in step.faults]
    assert not any(fault.role in ZOOKEEPER_ROLES for fault in faults)
    assert Kind.CUT_STORE not in {fault.kind for fault in faults}
    assert Kind.RESTORE not in {fault.kind for fault in faults}


def test_what_takes_data_away_comes_alone_and_is_followed_by_calm() -> None:
    taking = [
        step
        for step in islice(steps(1, True), MANY)
        if any(fault.kind in OF_DATA for fault in step.faults)
    ]
    assert taking
    assert all(len(step.faults) == 1 and step.settle for step in taking)


def test_only_steps_with_the_wanted_faults() -> None:
    wanted = {Kind.CLOCK, Kind.RECREATE}
    for step in islice(steps(1, True, only=wanted), 50):
        assert wanted & {fault.kind for fault in step.faults}
