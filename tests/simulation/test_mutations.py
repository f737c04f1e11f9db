"""Mutations of the real code follow it: each finds what it changes."""

import subprocess
import sys

import pytest

from ottla.simulation.mutations import MUTATIONS, Mutation

APPLY = "import sys; from ottla.simulation.mutations import find; find(sys.argv[1]).apply()"


def test_names_are_used_once() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_the_code_still_has_what_is_changed(mutation: Mutation) -> None:
    source = mutation.source()
    assert source.count(mutation.old) == 1
    compile(mutation.mutant(source), mutation.name, "exec")


def test_a_mutation_is_applied() -> None:
    done = subprocess.run(
        [sys.executable, "-c", APPLY, MUTATIONS[0].name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
