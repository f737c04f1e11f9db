"""An installation without native modules says so."""

import re
import shutil
from pathlib import Path

import ottla
from ottla.server.native import MODULES, missing_modules, native_warning

PACKAGE = Path(ottla.__file__).parent


def test_what_is_looked_for_is_what_setup_builds() -> None:
    setup = (PACKAGE.parents[1] / "setup.py").read_text()
    assert tuple(re.findall(r'"(ottla\.\w+\.native\.\w+)"', setup)) == MODULES


def test_a_missing_module_is_named_in_one_line(tmp_path: Path) -> None:
    for module in MODULES:
        folder = tmp_path.joinpath(*module.split(".")[1:-1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{module.rpartition('.')[2]}.pyx").touch()  # the source alone does not help
    assert missing_modules(tmp_path) == list(MODULES)
    line = native_warning(tmp_path)
    assert line is not None
    assert line.startswith("native: no (ottla.log.native.syncing, ")
    assert "\n" not in line


def test_an_installation_with_all_of_them_says_nothing(tmp_path: Path) -> None:
    for module in MODULES:
        folder = tmp_path.joinpath(*module.split(".")[1:-1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{module.rpartition('.')[2]}.abi3.so").touch()
    assert native_warning(tmp_path) is None
    shutil.rmtree(tmp_path / "wire")
    assert missing_modules(tmp_path) == ["ottla.wire.native.reading"]
