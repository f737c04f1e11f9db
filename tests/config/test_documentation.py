"""docs/configuration.md is what the table says."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_settings_is_up_to_date() -> None:
    spec = spec_from_file_location("generate", ROOT / "tools" / "generate_config_docs.py")
    assert spec is not None
    assert spec.loader is not None
    generator = module_from_spec(spec)
    spec.loader.exec_module(generator)
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == generator.render(), "run tools/generate_config_docs.py"
