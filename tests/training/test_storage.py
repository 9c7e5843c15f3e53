"""The run path as a file store: the same behaviour for a folder and for an address."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.training.conftest import require
from training import topology
from training.contract import Exit, RunEndError
from training.storage import Storage


@pytest.fixture(params=["folder", "address"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A store in a folder, plainly and as pyarrow's file system behind `file://`, the code path of `s3://`."""
    if request.param == "folder":
        return Storage(str(tmp_path / "runs" / "a"))
    require("pyarrow")
    return Storage(f"file://{tmp_path}/runs/a")


def test_files_appear_whole_and_are_listed(storage: Storage) -> None:
    assert storage.read("run.json") is None
    assert storage.names("checkpoints") == []
    storage.write("run.json", b"one")
    storage.write("run.json", b"two")
    storage.write("checkpoints/step_1/complete.json", b"{}")
    assert storage.read("run.json") == b"two"
    assert storage.names("checkpoints") == ["step_1"]
    assert storage.names("") == ["checkpoints", "run.json"]  # and no temporary file


def test_files_and_folders_go_and_missing_ones_are_no_error(storage: Storage) -> None:
    storage.write("checkpoints/step_1/a", b"x")
    storage.write("b", b"x")
    for name in ("checkpoints/step_1", "b", "never"):
        storage.delete(name)
    assert storage.names("checkpoints/step_1") == []
    assert storage.read("b") is None


def test_another_run_is_found_by_its_name_or_its_path(storage: Storage) -> None:
    named = storage.beside("b")
    named.write("x", b"1")
    assert storage.beside(named.root).read("x") == b"1"


def test_upload_and_download_copy_one_file(tmp_path: Path) -> None:
    require("pyarrow")
    storage = Storage(f"file://{tmp_path}/runs/a")
    source = tmp_path / "source"
    source.write_bytes(b"z" * 20_000_000)
    storage.upload(source, "checkpoints/step_1/part")
    storage.download("checkpoints/step_1/part", tmp_path / "new" / "part")
    assert (tmp_path / "new" / "part").read_bytes() == source.read_bytes()


def test_a_path_that_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Storage(str(tmp_path / "file" / "run")).write("run.json", b"x")


def test_a_full_disk_is_no_lasting_refusal_but_a_forbidden_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "broadcast", lambda value: value)
    storage = Storage(str(tmp_path))
    for number, lasting in ((errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EACCES, True)):

        def write(_name: str, _data: bytes, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(storage, "write", write)
        with pytest.raises(RunEndError, match="cannot write to") as ended:
            topology.check_storage(storage, topology.Place(), required=True)
        assert (ended.value.code, ended.value.lasting) == (Exit.STORAGE, lasting)


def test_what_a_killed_process_left_is_removed_at_the_start(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "broadcast", lambda value: value)
    monkeypatch.setattr(topology, "gather", lambda value: [value])
    probe = f".probe-{'0a' * 16}"
    kept = [".mine", "run.json"]
    for name in (
        *kept,
        ".run.json.0123abcd",
        ".loss.svg.0123abcd",
        ".refused.json.0123abcd",
        probe,
        f".{probe}.00ff00ff",
    ):
        storage.write(name, b"x")
    assert topology.check_storage(storage, topology.Place(), required=True)
    assert storage.names("") == kept


def test_all_files_below_a_folder_are_listed_with_size_and_time(storage: Storage) -> None:
    assert storage.files("") == []
    storage.write("run.json", b"one")
    storage.write("checkpoints/step_1/part", b"12345")
    found = storage.files("")
    assert [(name, size) for name, size, _ in found] == [("checkpoints/step_1/part", 5), ("run.json", 3)]
    assert storage.files("checkpoints") == [("step_1/part", 5, found[0][2])]
    path = Path(storage.root.removeprefix("file://"), "run.json")
    assert found[1][2] == pytest.approx(path.stat().st_mtime, abs=0.01)
