"""Waiters for commits are called once, in order."""

from ottla.broker.replicas.commit_waiters import CommitWaiters


def test_those_below_the_high_watermark_are_reported_in_order() -> None:
    waiters, told = CommitWaiters(), list[str]()
    for name, offset in (("late", 9), ("first", 3), ("second", 5), ("as early", 3)):
        waiters.add(offset, lambda name=name: told.append(name), None)  # type: ignore[misc]  # mypy cannot infer a default
    waiters.committed(2)
    assert told == []
    waiters.committed(5)
    assert told == ["first", "as early", "second"]
    waiters.committed(5)
    assert len(told) == 3


def test_what_is_lost_is_reported_once_and_never_committed() -> None:
    waiters, told = CommitWaiters(), list[str]()
    waiters.add(3, lambda: told.append("committed"), lambda: told.append("lost"))
    waiters.add(4, lambda: told.append("committed"), None)
    waiters.lost()
    waiters.committed(10)
    waiters.lost()
    assert told == ["lost"]


def test_who_gave_up_is_not_told_and_takes_no_memory() -> None:
    waiters, told = CommitWaiters(), list[str]()
    for _ in range(1000):
        waiters.give_up(waiters.add(3, lambda: told.append("gave up"), None))
    left = waiters.add(3, lambda: told.append("waits"), None)
    assert len(waiters) == 1
    assert waiters.size < 100
    waiters.committed(3)
    waiters.give_up(left)
    assert told == ["waits"]
