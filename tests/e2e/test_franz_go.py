"""How a run of franz-go's tests is judged; it runs in `python -m compat --only franz-go`."""

from compat.franz_go import endings, known_passes, missing

OUTPUT = """\
=== RUN   TestGroupETL
--- PASS: TestGroupETL (1.02s)
    --- PASS: TestGroupETL/inner (0.50s)
--- SKIP: TestShareGroup (0.00s)
--- FAIL: TestTxnEtl (3.00s)
PASS
"""


def test_only_whole_tests_are_counted() -> None:
    ended = {"TestGroupETL": "PASS", "TestShareGroup": "SKIP", "TestTxnEtl": "FAIL"}
    assert endings(OUTPUT) == ended


def test_a_test_that_kafka_passes_must_pass() -> None:
    lost = missing(OUTPUT, known_passes())
    assert "TestTxnEtl: FAIL" in lost
    assert "TestGroupETL: PASS" not in lost
    assert len(lost) == len(known_passes()) - 1


def test_a_run_in_which_all_of_them_pass_is_good() -> None:
    assert (
        missing("".join(f"--- PASS: {name} (0.00s)\n" for name in known_passes()), known_passes())
        == []
    )


def test_share_groups_are_asked_for() -> None:
    assert sum(name.startswith("TestShareGroup") for name in known_passes()) >= 4
