"""The README does what it says. `make readme` also follows what it installs, and Spark's steps."""

import sys
from pathlib import Path

from tools.readme import NOT_RUN, PRINTS, ROOT, Reader, StepFailed, in_order, steps

README = (ROOT / "README.md").read_text()
SPARK = "Spark in ten lines"


def test_commands_and_snippets_work_from_any_folder(tmp_path: Path) -> None:
    followed = [
        step
        for step in in_order(steps(README))
        if step.is_run and not step.installs and step.section != SPARK
    ]
    with Reader(tmp_path, ROOT, Path(sys.executable).parent) as reader:
        for step in followed:
            try:
                reader.follow(step)
            except StepFailed as problem:
                raise AssertionError(f"README.md:{step.line}: {step.text}\n{problem}") from None
    assert len(followed) > 15


def test_what_is_not_run_or_has_to_print_something_is_in_the_readme() -> None:
    texts = [step.text for step in steps(README)]
    for beginning in NOT_RUN:
        assert any(text.startswith(beginning) for text in texts), beginning
    for part in PRINTS:
        assert any(part in text for text in texts), part


def test_steps_are_lines_of_the_shell_blocks_of_python_and_commands_in_the_text() -> None:
    found = steps(
        "`ottla topic list` and `ottla log dump FOLDER`, not `ottla`\n"
        "## One\n```sh\nmake demo\n\nottla serve\n```\n"
        "## Two\n```python\nimport ottla\n\nottla\n```\n```\n$ ottla output\n```\n"
    )
    assert [(step.line, step.section, step.language, step.text) for step in found] == [
        (1, "", "sh", "ottla topic list"),
        (4, "One", "sh", "make demo"),
        (6, "One", "sh", "ottla serve"),
        (10, "Two", "python", "import ottla\n\nottla\n"),
    ]
    assert [step.is_run for step in found] == [True, False, True, True]
