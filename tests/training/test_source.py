"""Where a model or data come from: a folder, an address (pyarrow's `file://`), a name on a small hub of the test."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.training.conftest import require
from tests.training.processes import Started, finish, free_port, outputs
from training import source, topology
from training.contract import Exit, RunEndError

pytestmark = pytest.mark.usefixtures("torch_installed")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FOUR = tuple({"LOCAL_RANK": str(r % 2), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": str(r // 2)} for r in range(4))
FILES = {"config.json": b"{}", "model.safetensors": b"w" * 300_000, "tokenizer.json": b"{1}"}
OTHERS = {"pytorch_model.bin": b"no", "checkpoint-1/optimizer.pt": b"no"}


def fill(folder: Path) -> Path:
    for name, content in {**FILES, **OTHERS}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def run_ranks(started: Started, tmp_path: Path, uri: str, revision: str, *, kind: str, **env: str) -> list[str]:
    """What each of four ranks on two nodes got, by rank."""
    port = str(free_port())
    command = (uri, revision, str(tmp_path / "scratch-NODE"), kind, str(tmp_path / "result"))
    ranks = [
        started.start(
            (sys.executable, "-m", "tests.training.source_worker", *command),
            tmp_path / f"rank{rank}.log",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
            RANK=str(rank),
            WORLD_SIZE="4",
            **place,
            **env,
        )
        for rank, place in enumerate(FOUR)
    ]
    assert finish(ranks) == [0] * 4, outputs(ranks)
    return [(tmp_path / f"result-{rank}").read_text() for rank in range(4)]


@pytest.fixture
def alone() -> Iterator[topology.Place]:
    """This process as the only rank."""
    with topology.process_group(topology.Place(), cuda=False, timeout_s=60):
        yield topology.Place(host="here")


def refusal(uri: str, revision: str, scratch: Path, place: topology.Place, kind: str = "model") -> str:
    with pytest.raises(RunEndError) as caught:
        source.fetch(uri, revision, scratch, place, kind=kind)
    assert caught.value.code == Exit.STORAGE
    assert not caught.value.lasting
    return caught.value.message


def test_a_folder_is_taken_as_it_is(alone: topology.Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    for uri in (str(folder), "owner/name", "./owner/name"):
        assert source.fetch(uri, "", tmp_path / "scratch", alone, kind="model") == folder
    assert not (tmp_path / "scratch").exists()
    assert f"data {folder}/config.json is no folder on rank 0 on here" in refusal(
        f"{folder}/config.json", "", tmp_path, alone, kind="data"
    )


@pytest.mark.parametrize(
    ("uri", "revision", "said"),
    [
        ("owner/name", "", "model owner/name is no folder here, and for a name on the hub its commit is missing"),
        ("owner/name", "main", "model owner/name at main: needed a name on the hub and its commit of 40"),
        ("/owner/name", COMMIT, f"model /owner/name at {COMMIT}: needed a name on the hub"),
        ("./owner/name", "", "/owner/name is no folder on rank 0 on here; mount the same volume"),
        ("nosuch://bucket/a", "", "model nosuch://bucket/a cannot be fetched on here: ArrowInvalid: "),
    ],
)
def test_what_cannot_be_a_source_is_refused(
    alone: topology.Place, tmp_path: Path, uri: str, revision: str, said: str
) -> None:
    require("pyarrow")
    assert said in refusal(uri, revision, tmp_path / "scratch", alone)


def test_an_address_is_downloaded_once_while_it_stays_the_same(alone: topology.Place, tmp_path: Path) -> None:
    require("pyarrow")
    there = fill(tmp_path / "store" / "model")
    scratch = tmp_path / "scratch"
    uri = f"file://{there}"
    first = source.fetch(uri, "", scratch, alone, kind="model")
    assert content_of(first) == FILES
    mark = (first / "model.safetensors").stat().st_ino
    assert source.fetch(f"{uri}/", "", scratch, alone, kind="model") == first
    assert (first / "model.safetensors").stat().st_ino == mark
    os.truncate(first / "model.safetensors", 5)  # as after a crash of the node
    assert source.fetch(uri, "", scratch, alone, kind="model") == first
    assert content_of(first) == FILES
    (there / "config.json").write_bytes(b"{2}")
    second = source.fetch(uri, "", scratch, alone, kind="model")
    assert second != first
    assert content_of(second) == {**FILES, "config.json": b"{2}"}
    data = source.fetch(uri, "", scratch, alone, kind="data")
    assert content_of(data) == {**FILES, **OTHERS, "config.json": b"{2}"}
    assert sorted(p.name for p in scratch.iterdir()) == sorted({first.name, second.name, data.name})  # no rest


def test_an_address_without_files_is_named(alone: topology.Place, tmp_path: Path) -> None:
    require("pyarrow")
    (tmp_path / "empty").mkdir()
    uri = f"file://{tmp_path}/empty"
    assert refusal(uri, "", tmp_path / "s", alone) == (
        f"model {uri} cannot be fetched on here: FileNotFoundError: no files of a model there"
    )
    assert f"data file://{tmp_path}/gone cannot be fetched on here: FileNotFoundError: " in refusal(
        f"file://{tmp_path}/gone", "", tmp_path / "s", alone, kind="data"
    )


def test_each_node_downloads_an_address_for_its_ranks(tmp_path: Path, started: Started) -> None:
    require("pyarrow")
    there = fill(tmp_path / "store")
    found = run_ranks(started, tmp_path, f"file://{there}", "", kind="model")
    assert [Path(path).parent.name for path in found] == ["scratch-0", "scratch-0", "scratch-1", "scratch-1"]
    assert [content_of(Path(path)) for path in found] == [FILES] * 4
    for node in (0, 1):
        assert len(list((tmp_path / f"scratch-{node}").iterdir())) == 1


def test_a_folder_that_one_rank_does_not_see_ends_all(tmp_path: Path, started: Started) -> None:
    for rank in (0, 1, 3):
        (tmp_path / f"disk{rank}").mkdir()
    found = run_ranks(started, tmp_path, f"{tmp_path}/diskRANK", "", kind="data", HOSTNAME="pod")
    assert all(text.startswith("4 False data ") and " is no folder on rank 2 on " in text for text in found), found


@dataclass
class Hub:
    """The two routes of the hub that a download of a commit needs, for one repository."""

    url: str
    delay_s: float = 0.0
    """Before each answer with a file."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and Authorization of each."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    require("huggingface_hub")

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0]
            hub.requests.append((self.command, path, self.headers.get("Authorization", "")))
            files = {**FILES, **OTHERS}
            code, content, more = 404, b"{}", {"X-Error-Code": "EntryNotFound"}
            for prefix in ("/", "/datasets/"):
                repository = f"/api/{'datasets' if prefix != '/' else 'models'}/owner/name"
                start = f"{prefix}owner/name/resolve/{COMMIT}/"
                if path == f"{repository}/revision/{COMMIT}":
                    names = [{"rfilename": name} for name in files]
                    content = json.dumps({"id": "owner/name", "sha": COMMIT, "siblings": names}).encode()
                    code, more = 200, {}
                elif path.startswith(f"{repository}/tree/{COMMIT}"):
                    tree = [{"type": "file", "path": n, "size": len(c), "oid": "0" * 40} for n, c in files.items()]
                    code, content, more = 200, json.dumps(tree).encode(), {}
                elif path.startswith(start) and path.removeprefix(start) in files:
                    content = files[path.removeprefix(start)]
                    code, more = 200, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}  # noqa: S324 - as Git names content
                    if body:
                        time.sleep(hub.delay_s)
            self.send_response(code)
            for name, value in {**more, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield hub
    server.shutdown()
    server.server_close()
    thread.join()


def test_each_node_downloads_a_commit_from_the_hub(tmp_path: Path, started: Started, hub: Hub) -> None:
    """The files come later than ranks wait for each other (10 s)."""
    hub.delay_s = 12
    env = {"HF_ENDPOINT": hub.url, "RTD_MODEL_TOKEN": "hf_model", "HF_TOKEN": "hf_other", "WAIT_S": "10"}
    env |= {"HF_HUB_DOWNLOAD_TIMEOUT": "60", "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home")}
    found = run_ranks(started, tmp_path, "owner/name", COMMIT, kind="model", **env)
    assert found[0] == found[1] != found[2] == found[3]
    assert [content_of(Path(path)) for path in found] == [FILES] * 4
    assert [Path(path).relative_to(tmp_path).parts[0] for path in found[::2]] == ["scratch-0", "scratch-1"]
    assert {token for _, path, token in hub.requests if "owner/name" in path} == {"Bearer hf_model"}
    gets = [path for method, path, _ in hub.requests if method == "GET" and path.endswith("model.safetensors")]
    assert len(gets) == 2  # one for each node


@pytest.mark.full
def test_a_hub_that_does_not_know_the_data_or_does_not_answer_is_named(
    tmp_path: Path, started: Started, hub: Hub
) -> None:
    env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_any", "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    (tmp_path / "a").mkdir()
    found = run_ranks(started, tmp_path / "a", "owner/name", COMMIT, kind="data", **env)
    assert [content_of(Path(path)) for path in found] == [{**FILES, **OTHERS}] * 4
    assert {token for _, path, token in hub.requests if path.startswith("/datasets/")} == {"Bearer hf_any"}
    (tmp_path / "b").mkdir()
    unknown = run_ranks(started, tmp_path / "b", "owner/other", COMMIT, kind="data", **env)
    closed = {**env, "HF_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    (tmp_path / "c").mkdir()
    silent = run_ranks(started, tmp_path / "c", "owner/name", COMMIT, kind="data", **closed)
    assert unknown == [unknown[0]] * 4
    assert unknown[0].startswith("4 False data owner/other cannot be fetched on ")
    assert " 404 " in unknown[0]
    assert silent == [silent[0]] * 4
    assert silent[0].startswith("4 False data owner/name cannot be fetched on ")
    assert "Connection refused" in silent[0]
