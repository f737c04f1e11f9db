"""History: rings that survive a restart; and what the sampler makes of what it sees."""

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from ottla.client import TopicPartition
from ottla.console import history as module
from ottla.console.app import STATIC_FOLDER
from ottla.console.history import DAY_SECONDS, History
from ottla.console.sampler import Rounds

STEP = 10
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_samples_survive_a_restart(tmp_path: Path) -> None:
    history = History(tmp_path / "h", STEP)
    history.add(1000, {"total": 5.0}, {})
    history.add(1010, {}, {})
    history.close()
    history = History(tmp_path / "h", STEP)
    history.add(1020, {"total": 7.0}, {"a": 7.0})
    assert history.lines(["total", "none"]) == ([1000, 1010, 1020], [[5, 0, 7], [0, 0, 0]])
    assert history.rates() == {"a": 7.0}
    history.close()


def test_a_time_without_samples_is_a_gap(tmp_path: Path) -> None:
    history = History(tmp_path / "h", STEP)
    history.add(1000, {"total": 1.0}, {})
    history.add(5000, {"total": 2.0}, {})
    assert history.lines(["total"]) == ([1000, 1010, 5000], [[1, None, 2]])
    history.close()


def test_a_ring_never_grows_and_forgets_the_day_before(tmp_path: Path) -> None:
    step = DAY_SECONDS // 10
    history = History(tmp_path / "h", step)
    for number in range(25):
        history.add(number * step, {"total": float(number)}, {})
    times, (line,) = history.lines(["total"])
    assert times == [number * step for number in range(15, 25)]
    assert line == [float(number) for number in range(15, 25)]
    history.close()
    with sqlite3.connect(tmp_path / "h") as database:
        assert database.execute("SELECT count(*) FROM sample").fetchone() == (20,)


def test_series_are_bounded_and_old_ones_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SERIES", 3)
    history = History(tmp_path / "h", STEP)
    history.add(0, {"a": 1, "b": 1, "too many": 1}, {})
    assert history.lines(["too many"])[1] == [[0]]
    later = DAY_SECONDS + 2 * STEP
    history.add(later, {"b": 1, "new": 1}, {})
    assert history.lines(["new"])[1] == [[1]]
    history.close()


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "h").write_bytes(b"this is no database" * 100)
    history = History(tmp_path / "h", STEP)
    history.add(1000, {"total": 1.0}, {})
    assert history.lines(["total"]) == ([1000], [[1]])
    history.close()


def test_rates_come_from_two_rounds() -> None:
    rounds = Rounds()
    assert rounds.rates(0, {A: 100, B: 5}) == {}
    assert rounds.rates(10, {A: 150, B: 5}) == {"a": 5.0}
    assert rounds.rates(20, {A: 0, B: 6}) == {"b": 0.1}, "a topic that was created again"


def test_lag_in_seconds_is_the_time_since_the_partition_ended_there() -> None:
    rounds = Rounds()
    for at in range(0, 60, 10):
        rounds.rates(at, {A: 100 + at})
    assert rounds.lag(50, {A: 150}) == (0, 0.0)
    assert rounds.lag(50, {A: 130}) == (20, 20)
    assert rounds.lag(50, {A: 10}) == (140, 50), "as far back as was seen"
    assert rounds.lag(50, {B: 3}) == (0, 0.0)


def test_vendored_files_are_what_was_published() -> None:
    listed = json.loads((STATIC_FOLDER / "vendored.json").read_text())
    for each in listed:
        data = (STATIC_FOLDER / each["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == each["sha256"], each["file"]
        assert (STATIC_FOLDER / each["licence_file"]).exists()
        assert each["version"]
        assert each["licence"]
    own = {"console.css", "console.js", "icon.svg", "vendored.json"}
    known = {each[key] for each in listed for key in ("file", "licence_file")}
    assert {path.name for path in STATIC_FOLDER.iterdir()} == own | known
