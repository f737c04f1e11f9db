"""Open files: how many there are at most, which ones, and that pinned ones stay."""

import errno
import gc
import os
import weakref
from pathlib import Path

import pytest

from ottla.log.storage import files as module
from ottla.log.storage.file_cache import FileCache, OpenFile
from ottla.log.storage.files import Files


def made(cache: FileCache, directory: Path, count: int) -> list[OpenFile]:
    files = [cache.create(str(directory / f"{number}")) for number in range(count)]
    for number, file in enumerate(files):
        os.pwrite(file.descriptor(), b"%d" % number, 0)
        file.used = False
    return files


def test_no_more_files_are_open_than_the_limit(tmp_path: Path) -> None:
    cache = FileCache(3)
    files = made(cache, tmp_path, 10)
    assert len(cache) == sum(file.fd >= 0 for file in files) == 3


def test_a_file_that_was_closed_is_opened_again_on_use(tmp_path: Path) -> None:
    cache = FileCache(2)
    files = made(cache, tmp_path, 5)
    for number, file in enumerate(files):
        assert os.pread(file.descriptor(), 10, 0) == b"%d" % number


def test_files_in_use_stay_open_longer_than_others(tmp_path: Path) -> None:
    cache = FileCache(4)
    hot, *others = made(cache, tmp_path, 20)
    hot.descriptor()
    for file in others:
        file.descriptor()
        hot.used = True
        assert hot.fd >= 0


def test_a_pinned_file_is_not_closed_for_others(tmp_path: Path) -> None:
    cache = FileCache(1)
    pinned, *others = made(cache, tmp_path, 5)
    fd = pinned.pin()
    for file in others:
        file.descriptor()
    assert pinned.fd == fd
    assert os.pread(fd, 10, 0) == b"0"
    pinned.unpin()
    others[0].descriptor()
    others[1].descriptor()
    assert pinned.fd == -1


def test_all_files_may_be_pinned_past_the_limit(tmp_path: Path) -> None:
    cache = FileCache(2)
    files = made(cache, tmp_path, 6)
    for file in files:
        file.pin()
    assert all(file.fd >= 0 for file in files)


def test_a_retired_file_closes_with_its_last_reader(tmp_path: Path) -> None:
    cache = FileCache(5)
    (file,) = made(cache, tmp_path, 1)
    file.pin()
    file.pin()
    os.unlink(file.path)
    file.retire()
    assert os.pread(file.fd, 10, 0) == b"0"
    file.unpin()
    assert file.fd >= 0
    file.unpin()
    assert file.fd == -1
    assert len(cache) == 0
    with pytest.raises(FileNotFoundError):
        file.descriptor()


def test_the_owner_learns_that_its_file_was_closed(tmp_path: Path) -> None:
    cache = FileCache(1)
    first, second = made(cache, tmp_path, 2)
    told: list[str] = []
    first.on_close = lambda: told.append("first")
    first.descriptor()
    assert told == []
    second.descriptor()
    first.used = False
    second.used = False
    made(cache, tmp_path, 1)
    assert told == ["first"]


def test_when_the_system_has_no_more_descriptors_another_file_is_closed(tmp_path: Path) -> None:
    files = Files()
    cache = FileCache(100, files)
    first, second = made(cache, tmp_path, 2)
    cache.close(first)
    real, failures = files.open, [1]

    def exhausted(path: str, flags: int, mode: int) -> int:
        if failures:
            failures.pop()
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, mode)

    files.open = exhausted
    assert os.pread(first.descriptor(), 10, 0) == b"0"
    assert second.fd == -1


def test_a_file_is_written_fully_even_if_the_system_takes_it_in_pieces(tmp_path: Path) -> None:
    files = Files()
    real = files.pwrite
    files.pwrite = lambda fd, data, position: real(fd, memoryview(data)[:3], position)
    files.write_file(str(tmp_path / "f"), b"0123456789", sync=True)
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_a_file_in_the_current_folder_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Files().replace_file("name", b"new")
    assert Path("name").read_bytes() == b"new"


def test_a_large_file_is_read_whole(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "f").write_bytes(data)
    assert Files().read_file(str(tmp_path / "f")) == data


@pytest.mark.parametrize("is_open", [True, False])
def test_a_retired_file_lets_go_of_its_owner(tmp_path: Path, is_open: bool) -> None:
    class Owner:
        def __init__(self, file: OpenFile) -> None:
            self.file = file
            file.on_close = self.closed
            self.was_told = False

        def closed(self) -> None:
            self.was_told = True

    cache = FileCache(10)
    owner = Owner(cache.create(str(tmp_path / "file")))
    if not is_open:
        cache.close(owner.file)
    gc.disable()
    try:
        owner.file.retire()
        assert owner.was_told
        gone = weakref.ref(owner)
        del owner
        assert gone() is None
    finally:
        gc.enable()


def test_a_pinned_file_lets_go_of_its_owner_when_its_reader_is_done(tmp_path: Path) -> None:
    file = FileCache(10).create(str(tmp_path / "file"))
    told: list[str] = []
    file.on_close = lambda: told.append("closed")
    file.pin()
    file.retire()
    assert told == []
    file.unpin()
    assert told == ["closed"]
    assert file.on_close is None


@pytest.fixture(params=["pure", "native"])
def real_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Files:
    if request.param == "native" and module.SYNC_ALL is None:
        pytest.skip("there was no compiler at install")
    if request.param == "pure":
        monkeypatch.setattr(module, "SYNC_ALL", None)
        monkeypatch.setattr(module, "SYNC_FOLDERS", None)
    return Files()


def test_every_file_is_synced_whatever_is_wrong_with_others(
    tmp_path: Path, real_files: Files
) -> None:
    cache = FileCache(10)
    fine = [file.descriptor() for file in made(cache, tmp_path, 3)]
    closed = os.dup(fine[0])
    os.close(closed)
    assert real_files.sync_all([]) == []
    assert real_files.sync_all(fine[:1]) == [None]
    problems = real_files.sync_all([fine[0], closed, *fine[1:]])
    assert [problem and problem.errno for problem in problems] == [None, errno.EBADF, None, None]
    assert str(problems[1]) == "[Errno 9] Bad file descriptor"


def test_every_folder_is_synced_whatever_is_wrong_with_others(
    tmp_path: Path, real_files: Files
) -> None:
    first, last = tmp_path / "first", tmp_path / "l\u00e4st"
    first.mkdir()
    last.mkdir()
    assert real_files.sync_directories([]) == []
    before = len(os.listdir("/proc/self/fd"))
    problems = real_files.sync_directories([str(first), str(tmp_path / "gone"), str(last)])
    assert [problem and problem.errno for problem in problems] == [None, errno.ENOENT, None]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_layer_of_a_test_sees_every_sync(tmp_path: Path) -> None:
    files = Files()
    seen: list[int] = []
    files.fdatasync = files.fsync = seen.append
    assert files.sync_all([1, 2]) == [None, None]
    assert seen == [1, 2]
    assert files.sync_directories([str(tmp_path)] * 2) == [None, None]
    assert len(seen) == 4
