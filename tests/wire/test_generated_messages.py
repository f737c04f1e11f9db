"""The generated modules are what the generator makes, and need nothing of it at run time."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
MESSAGES = ROOT / "src" / "ottla" / "wire" / "messages"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = spec_from_file_location("generate_messages", ROOT / "tools" / "generate_messages.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # A dataclass looks its module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_committed_modules_are_what_the_generator_makes(generator: ModuleType) -> None:
    made: dict[str, str] = generator.generate()
    committed = {path.name: path.read_text() for path in MESSAGES.glob("*.py")}
    assert sorted(committed) == sorted(made)
    for name, text in made.items():
        assert committed[name] == text, f"{name}: run tools/generate_messages.py"


def test_kio_is_not_needed_at_run_time() -> None:
    modules = ",".join(f"ottla.wire.messages.{path.stem}" for path in MESSAGES.glob("[a-z]*.py"))
    program = f"import sys, {modules}, ottla.wire.codec; sys.exit('kio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
