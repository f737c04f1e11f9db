"""What every metadata store promises (ottla.metadata.store), tried on each of them."""

import asyncio
import signal
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.clock import boottime
from ottla.metadata.store import (
    Change,
    Check,
    Conflict,
    Create,
    Delete,
    Document,
    HistoryLost,
    Op,
    Put,
    SessionEnded,
    Update,
)

from .model import Model
from .stores import Backing, Watcher, on_a_loop


@on_a_loop
async def test_a_new_store_is_empty(backing: Backing) -> None:
    store = await backing.open("one")
    assert await store.scan("") == []
    assert await store.read("topics/a") is None
    await store.close()


@on_a_loop
async def test_a_documents_version_grows_by_one_with_each_change(backing: Backing) -> None:
    store = await backing.open("one")
    assert await store.commit([Create("a", b"x")]) == [0]
    assert await store.commit([Put("a", b"y"), Update("a", b"z", 1)]) == [1, 2]
    found = await store.read("a")
    assert found is not None
    assert (found.value, found.version) == (b"z", 2)
    await store.close()


@on_a_loop
async def test_a_document_made_again_begins_at_zero_with_a_higher_epoch(backing: Backing) -> None:
    store = await backing.open("one")
    await store.commit([Create("a", b"x"), Put("a", b"y")])
    first = await store.read("a")
    assert await store.commit([Delete("a"), Create("a", b"x")]) == [1, 0]
    second = await store.read("a")
    assert first is not None
    assert second is not None
    assert second.version == 0
    assert second.epoch > first.epoch
    await store.close()


@on_a_loop
async def test_a_scan_finds_the_keys_that_begin_so_in_order(backing: Backing) -> None:
    store = await backing.open("one")
    keys = ["a/2", "a/1", "a", "ab/1", "a/1/x", "b"]
    await store.commit([Create(key, key.encode()) for key in keys])
    assert [one.key for one in await store.scan("a/")] == ["a/1", "a/1/x", "a/2"]
    assert [one.key for one in await store.scan("")] == sorted(keys)
    assert await store.scan("c") == []
    await store.close()


@pytest.mark.parametrize(
    "op",
    [
        Create("there", b"new"),
        Update("there", b"new", 0),
        Update("there", b"new", 2),
        Update("missing", b"new", 0),
        Delete("there", 0),
        Delete("missing"),
        Check("there", 0),
        Check("there", None),
        Check("missing", 0),
    ],
    ids=str,
)
@on_a_loop
async def test_what_does_not_fit_is_a_conflict_and_changes_nothing(
    backing: Backing, op: Op
) -> None:
    store = await backing.open("one")
    watcher = Watcher()
    await store.commit([Create("there", b"old"), Put("there", b"value")])
    await watcher.watch(store)
    before = await store.scan("")
    with pytest.raises(Conflict) as raised:
        await store.commit([Create("other", b""), Put("third", b""), op, Put("there", b"last")])
    assert raised.value.key == op.key
    assert await store.scan("") == before
    assert watcher.calls == []
    await store.close()


@on_a_loop
async def test_checks_let_a_commit_pass_when_they_hold(backing: Backing) -> None:
    store = await backing.open("one")
    await store.commit([Create("role", b"me")])
    await store.commit([Check("role", 0), Check("gone", None), Put("a", b"x")])
    found = await store.read("role")
    assert found is not None
    assert found.version == 0
    await store.close()


@on_a_loop
async def test_what_was_committed_is_there_after_a_restart(backing: Backing) -> None:
    store = await backing.open("one")
    await store.commit([Create("a", b"x"), Create("b", bytes(range(256)))])
    before = await store.scan("")
    await store.close()
    store = await backing.open("one")
    assert await store.scan("") == before
    assert await store.commit([Update("a", b"y", 0)]) == [1]
    await store.close()


@on_a_loop
async def test_a_watcher_gets_own_changes_before_the_commit_returns(
    backing: Backing,
) -> None:
    store = await backing.open("one")
    await store.commit([Create("before", b"")])
    watcher = Watcher()
    await watcher.watch(store)
    assert list(watcher.documents) == ["before"]
    for number in range(50):
        await store.commit([Put("a", str(number).encode()), Put("b", b"")])
        assert len(watcher.calls) == number + 1
    await store.commit([Delete("a")])
    assert watcher.changes[-1].value is None
    assert sorted(watcher.documents.values()) == await store.scan("")
    await store.close()


@on_a_loop
async def test_a_watcher_gets_others_changes_in_order(backing: Backing) -> None:
    here, there = await backing.open("here"), await backing.open("there")
    watcher = Watcher()
    await watcher.watch(here)
    for number in range(30):
        writer = here if number % 3 == 0 else there
        await writer.commit([Put("left", b"%d" % number), Put("right", b"%d" % number)])
    await there.commit([Delete("left"), Create("end", b"")])
    await watcher.until(lambda: "end" in watcher.documents)
    told = [(one.key, one.value) for one in watcher.changes]
    expected = [(key, b"%d" % n) for n in range(30) for key in ("left", "right")]
    assert told == [*expected, ("left", None), ("end", b"")]
    # A commit's changes come together.
    assert all(len(call) % 2 == 0 for call in watcher.calls)
    assert sorted(watcher.documents.values()) == await here.scan("")
    await here.close()
    await there.close()


@on_a_loop
async def test_catch_up_gives_all_that_others_committed_before(backing: Backing) -> None:
    here, there = await backing.open("here"), await backing.open("there")
    watcher = Watcher()
    await watcher.watch(here)
    for number in range(20):
        await there.commit([Put("a", b"%d" % number)])
        await here.catch_up()
        assert watcher.documents["a"].value == b"%d" % number
    await here.close()
    await there.close()


@on_a_loop
async def test_a_closed_store_tells_nothing_and_does_nothing(backing: Backing) -> None:
    store, other = await backing.open("one"), await backing.open("other")
    watcher = Watcher()
    await watcher.watch(store)
    await store.close()
    await store.close()
    await other.commit([Create("a", b"")])
    with pytest.raises(SessionEnded):
        await store.read("a")
    assert watcher.calls == []
    await other.close()


@on_a_loop
async def test_a_registration_vanishes_when_the_store_is_closed(backing: Backing) -> None:
    store, other = await backing.open("one"), await backing.open("other")
    watcher = Watcher()
    await watcher.watch(other)
    registration = await store.register("brokers/1", b"here")
    found = await store.read("brokers/1")
    assert found == Document("brokers/1", b"here", 0, registration.epoch)
    await store.close()
    await watcher.until(lambda: len(watcher.changes) == 2)
    assert [one.value for one in watcher.changes] == [b"here", None]
    assert await other.scan("") == []
    await other.close()


@on_a_loop
async def test_a_key_is_registered_by_one_at_a_time_and_each_time_with_a_higher_epoch(
    backing: Backing,
) -> None:
    first, second = await backing.open("first"), await backing.open("second")
    earlier = await first.register("controller", b"first")
    with pytest.raises(Conflict):
        await second.register("controller", b"second")
    await first.commit([Put("controller", b"still first")])
    await first.close()
    later = await second.register("controller", b"second")
    assert later.epoch > earlier.epoch
    await second.close()


@on_a_loop
async def test_other_documents_of_a_session_stay(backing: Backing) -> None:
    store = await backing.open("one")
    await store.register("a", b"")
    await store.commit([Delete("a"), Create("a", b"stays")])
    await store.close()
    store = await backing.open("two")
    assert [one.value for one in await store.scan("")] == [b"stays"]
    await store.close()


@on_a_loop
async def test_a_killed_process_loses_its_registration_once_it_is_declared_dead(
    backing: Backing,
) -> None:
    store = await backing.open("watching")
    watcher = Watcher()
    await watcher.watch(store)
    with backing.process("register", "broker-9") as process:
        assert process.stdout is not None
        epoch = int(await asyncio.to_thread(process.stdout.readline))
        await watcher.until(lambda: "brokers/9" in watcher.documents)
        assert watcher.documents["brokers/9"].epoch == epoch
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
    await backing.declare_dead("broker-9")
    await watcher.until(lambda: "brokers/9" not in watcher.documents)
    assert await store.read("brokers/9") is None
    await store.close()


@on_a_loop
async def test_a_session_declared_dead_cannot_write(backing: Backing) -> None:
    store, other = await backing.open("paused"), await backing.open("other")
    watcher, reasons, ended = Watcher(), list[str](), asyncio.Event()
    await watcher.watch(store)
    store.on_session_end(reasons.append)
    store.on_session_end(lambda _: ended.set())
    await store.register("brokers/1", b"")
    await backing.declare_dead("paused")
    await ended.wait()
    with pytest.raises(SessionEnded):
        await store.commit([Create("a", b"")])
    with pytest.raises(SessionEnded):
        await store.register("brokers/1", b"")
    await other.commit([Create("b", b"")])
    assert [one.key for one in await other.scan("")] == ["b"]
    await store.close()
    assert len(reasons) == 1
    assert [one.key for one in watcher.changes] == ["brokers/1"]
    await other.close()


@on_a_loop
async def test_an_own_close_does_not_call_the_session_end_callback(backing: Backing) -> None:
    store = await backing.open("one")
    reasons: list[str] = []
    store.on_session_end(reasons.append)
    await store.close()
    assert reasons == []


@on_a_loop
async def test_a_session_that_was_answered_has_a_lease(backing: Backing) -> None:
    store = await backing.open("one")
    await store.commit([Create("a", b"")])
    timeout, answered = store.session_facts()
    assert timeout > 0
    assert answered <= boottime() < answered + timeout
    await store.close()


@on_a_loop
async def test_commits_that_come_at_once_are_each_all_or_nothing(backing: Backing) -> None:
    store = await backing.open("one")
    watcher = Watcher()
    await watcher.watch(store)
    commits: list[list[Op]] = [
        [Create(f"key/{number % 50}", b"%d" % number), Put(f"mark/{number}", b"")]
        for number in range(100)
    ]
    outcomes = await asyncio.gather(*map(store.commit, commits), return_exceptions=True)
    assert outcomes[:50] == [[0, 0]] * 50
    assert all(isinstance(one, Conflict) for one in outcomes[50:])
    assert len(await store.scan("mark/")) == 50
    assert sorted(watcher.documents.values()) == await store.scan("")
    await store.close()


@on_a_loop
async def test_two_stores_that_write_at_once_see_the_same_order(backing: Backing) -> None:
    stores = [await backing.open("left"), await backing.open("right")]
    watchers = [Watcher(), Watcher()]
    for store, watcher in zip(stores, watchers, strict=True):
        await watcher.watch(store)

    async def write(name: int) -> None:
        for number in range(40):
            await stores[name].commit([Put("shared", b"%d %d" % (name, number))])

    await asyncio.gather(write(0), write(1))
    for watcher in watchers:
        await watcher.until(lambda watcher=watcher: len(watcher.changes) == 80)  # type: ignore[misc]  # mypy does not infer a lambda with a default
    assert watchers[0].changes == watchers[1].changes
    assert [one.version for one in watchers[0].changes] == list(range(80))
    for store in stores:
        await store.close()


@on_a_loop
async def test_two_processes_that_compare_and_set_lose_no_change(backing: Backing) -> None:
    store = await backing.open("one")
    await store.commit([Create("counter", b"0")])
    watcher = Watcher()
    await watcher.watch(store)
    with backing.process("count", "left") as left, backing.process("count", "right") as right:
        ended = [await asyncio.to_thread(each.wait) for each in (left, right)]
        assert ended == [0, 0]
    found = await store.read("counter")
    assert found is not None
    assert (found.value, found.version) == (b"200", 200)
    await watcher.until(lambda: len(watcher.changes) == 200)
    assert [one.version for one in watcher.changes] == list(range(1, 201))
    await store.close()


@on_a_loop
async def test_several_processes_may_make_a_new_store_at_once(backing: Backing) -> None:
    with (
        backing.process("nothing", "a") as a,
        backing.process("nothing", "b") as b,
        backing.process("nothing", "c") as c,
    ):
        ended = [await asyncio.to_thread(each.wait) for each in (a, b, c)]
        assert ended == [0, 0, 0]


@on_a_loop
async def test_kill_9_in_the_middle_leaves_whole_commits_and_all_that_were_acknowledged(
    backing: Backing,
) -> None:
    for acknowledged_before_the_kill in (1, 7, 40):
        with backing.process("write-pairs", "writer") as process:
            assert process.stdout is not None
            acknowledged = 0
            while acknowledged < acknowledged_before_the_kill:
                acknowledged = int(await asyncio.to_thread(process.stdout.readline))
            process.send_signal(signal.SIGKILL)
            rest = (await asyncio.to_thread(process.stdout.read)).split("\n")
        acknowledged = max([acknowledged, *(int(line) for line in rest[:-1])])
        store = await backing.open("after")
        left, right = await store.scan("pair/")
        assert left.value == right.value
        assert acknowledged <= int(left.value) <= acknowledged + 1
        await store.close()


@on_a_loop
async def test_ten_thousand_and_one_operations_are_one_commit(backing: Backing) -> None:
    store = await backing.open("one")
    watcher = Watcher()
    await watcher.watch(store)
    ops: list[Op] = [Create("topics/a", b"topic")]
    ops += [Create(f"partitions/a/{number}", b"partition") for number in range(10_000)]
    assert await store.commit(ops) == [0] * 10_001
    assert [len(call) for call in watcher.calls] == [10_001]
    with pytest.raises(Conflict):
        await store.commit([*(Delete(op.key) for op in ops), Delete("missing")])
    assert len(await store.scan("")) == 10_001
    await store.commit([Delete(op.key) for op in ops])
    assert await store.scan("") == []
    await store.close()


_KEYS = st.sampled_from(["a", "b", "c/1", "c/2"])
_VALUES = st.binary(max_size=3)
_VERSIONS = st.integers(0, 3)
_OPS = st.one_of(
    st.builds(Put, _KEYS, _VALUES),
    st.builds(Create, _KEYS, _VALUES),
    st.builds(Update, _KEYS, _VALUES, _VERSIONS),
    st.builds(Delete, _KEYS, st.none() | _VERSIONS),
    st.builds(Check, _KEYS, st.none() | _VERSIONS),
)


_Told = list[tuple[str, bytes | None, int]]


def _told(changes: list[Change]) -> _Told:
    return [(one.key, one.value, one.version) for one in changes]


def _model_outcome(model: Model, ops: list[Op]) -> _Told | str:
    """The changes, or the key of the conflict."""
    try:
        return _told(model.commit(ops))
    except Conflict as conflict:
        return conflict.key


@settings(max_examples=40, deadline=None)
@given(commits=st.lists(st.lists(_OPS, min_size=1, max_size=4), max_size=12))
def test_any_sequence_of_commits_does_what_the_model_does(
    new_backing: Callable[[], Backing], commits: list[list[Op]]
) -> None:
    @on_a_loop
    async def compare() -> None:
        model, watcher = Model(), Watcher()
        epochs: dict[str, int] = {}
        store = await new_backing().open("one")
        await watcher.watch(store)
        for ops in commits:
            watcher.calls.clear()
            before = {key: one.epoch for key, one in watcher.documents.items()}
            expected = _model_outcome(model, ops)
            try:
                await store.commit(ops)
            except Conflict as conflict:
                outcome: _Told | str = conflict.key
            else:
                outcome = _told(watcher.changes)
            assert outcome == expected
            assert len(watcher.calls) <= 1
            for key, one in watcher.documents.items():
                made_again = one.epoch != before.get(key)
                assert made_again == (one.epoch > epochs.get(key, -1))
                epochs[key] = one.epoch
        found = await store.scan("")
        assert found == sorted(watcher.documents.values())
        assert [one[:3] for one in found] == [one[:3] for one in model.snapshot()]
        await store.close()

    compare()


@on_a_loop
async def test_a_later_session_continues_from_where_an_earlier_one_was(backing: Backing) -> None:
    store = await backing.open("one")
    await store.watch(Watcher())
    await store.commit([Put("a", b"1")])
    await backing.declare_dead("one")
    known = store.position()
    await store.close()
    again = await backing.open("one")
    await again.check_history(known)
    await again.commit([Put("a", b"2")])
    await again.check_history(known)
    await again.close()


@on_a_loop
async def test_a_history_that_is_shorter_or_another_one_is_refused(
    new_backing: Callable[[], Backing],
) -> None:
    store = await new_backing().open("one")
    await store.watch(Watcher())
    for number in range(5):
        await store.commit([Put("a", b"%d" % number)])
    known = store.position()
    await store.close()
    another = await new_backing().open("one")
    with pytest.raises(HistoryLost):
        await another.check_history(known)
    for number in range(10):
        await another.commit([Put("b", b"%d" % number)])
    with pytest.raises(HistoryLost):
        await another.check_history(known)
    await another.close()
