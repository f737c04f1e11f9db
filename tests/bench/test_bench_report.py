"""The chart and the page that the bench writes."""

from pathlib import Path
from xml.etree import ElementTree

from bench import works
from bench.chart import LABELS, svg
from bench.report import Measured, Results, load, page, save
from bench.rows import Goal, Row

WIDEST_CHARACTER = 7  # pixels, on average, of the 13-pixel font
SPACE = "{http://www.w3.org/2000/svg}"
ROWS = [
    Row("produce", "rate", "/s", [100.0], [200.0], Goal(ratio_at_least=1.2), "limit: a | b"),
    Row("start", "time", "s", [4.0], [2.0], Goal(ratio_at_most=0.2, below=0.7)),
    Row("stall <1>", "p99", "ms", [4.0], [2.0], Goal(below=20)),
    Row("failed", "rate", "/s", [], [], Goal(ratio_at_least=1)),
]


def bars(rows: list[Row]) -> list[tuple[str, float, float]]:
    drawing = ElementTree.fromstring(svg(rows))
    return [
        (bar.attrib["class"], float(bar.attrib["x"]), float(bar.attrib["width"]))
        for bar in drawing.iter(f"{SPACE}rect")
    ]


def test_only_rows_that_are_judged_by_a_ratio_have_a_bar() -> None:
    assert [kind for kind, _, _ in bars(ROWS)] == ["met", "missed"]


def test_twice_and_half_reach_as_far_to_both_sides_of_one() -> None:
    (_, right, right_width), (_, left, left_width) = bars(ROWS)
    assert abs(right_width - left_width) < 0.2
    assert abs(left + left_width - right) < 0.2


def test_a_missed_goal_is_said_in_words_too() -> None:
    texts = [text.text for text in ElementTree.fromstring(svg(ROWS)).iter(f"{SPACE}text")]
    assert "2.00 ×" in texts
    assert "0.50 × missed" in texts


def test_a_chart_of_nothing_is_still_a_drawing() -> None:
    assert bars([]) == []


def test_labels_are_escaped() -> None:
    odd = Row("a < b & c", "rate", "/s", [1.0], [1.0], Goal(ratio_at_least=1))
    assert "a < b & c: rate" in [
        text.text for text in ElementTree.fromstring(svg([odd])).iter(f"{SPACE}text")
    ]


def test_the_longest_label_fits_beside_the_plot() -> None:
    names = [works.PRODUCE, works.UNBATCHED, works.CONSUME, works.START, works.MEMORY]
    longest = max(len(f"{name}: broker CPU a message") for name in names)
    assert longest * WIDEST_CHARACTER < LABELS


def results(
    rows: list[Row] = ROWS,
    machine: dict[str, str] | None = None,
    failures: dict[str, str] | None = None,
    quiet: bool = True,
) -> Results:
    return Results({"works": Measured("2026-01-02", machine or {}, quiet, rows)}, failures or {})


def test_the_page_says_what_falls_short_and_what_was_not_measured() -> None:
    text = page(results(machine={"CPU": "two cores"}, failures={"memory": "it died"}))
    assert "Falls short: start, time; failed, rate." in text
    assert "Not measured: memory (it died)." in text
    assert "- CPU: two cores" in text
    assert "2026-01-02" in text


def test_a_bar_in_a_note_does_not_break_the_table() -> None:
    assert r"limit: a \| b |" in page(results())


def test_the_page_says_so_when_every_goal_is_met() -> None:
    assert "Every goal is met." in page(results(ROWS[:1]))


def test_figures_of_a_busy_machine_are_not_to_be_quoted() -> None:
    assert "do not quote the figures of works" in page(results(quiet=False))
    assert "do not quote" not in page(results())


def test_works_of_several_runs_say_on_what_each_was_measured() -> None:
    several = Results(
        {
            "start": Measured("2026-01-02", {"CPU": "one", "Ottla": "abc"}, True, ROWS[:1]),
            "memory": Measured("2026-01-03", {"CPU": "one", "Ottla": "def"}, True, ROWS[1:]),
        },
        {},
    )
    lines = page(several).splitlines()
    assert "- CPU: one" in lines
    assert "| start | 2026-01-02 | abc |" in lines
    assert "| memory | 2026-01-03 | def |" in lines


def test_works_of_one_run_have_a_table_of_two_columns() -> None:
    told = page(Results({"start": Measured("2026-11-17", {"cores": "2"}, True, ROWS)}, {}))
    assert "| work | date |\n|---|---|\n| start | 2026-11-17 |" in told


def test_what_was_saved_can_be_loaded(tmp_path: Path) -> None:
    save(results(), tmp_path / "results.json")
    assert load(tmp_path / "results.json") == results()
