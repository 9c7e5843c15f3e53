"""Packing text into tokens with a real Ray and a real tokenizer: the same bytes everywhere, in bounded memory."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import require
from tests.training.corpus import DOCUMENTS, VOCAB, entropy_of, make_tokenizer
from tests.training.processes import Process, Started, environment, until
from tests.training.raycluster import RAY, WAIT, Cluster, running_head
from training.pack import main
from training.packed import DTYPES, PackedTokens

PACK = (sys.executable, "-m", "training.pack")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer's folder."""
    require("torch", "transformers", "pyarrow", "ray")
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer") / "bpe")


@pytest.fixture(scope="module")
def cluster(tokenizer: Path) -> Iterator[Cluster]:
    """One node with two CPUs and an object store of 80 MB."""
    with running_head(cpus=2) as made:
        yield made


@pytest.fixture(scope="module")
def loaded(tokenizer: Path) -> Any:
    """The tokenizer itself."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(tokenizer))


def paragraphs() -> list[str]:
    """Some hundred documents out of this repository's own."""
    return [text for path in DOCUMENTS for text in path.read_text(encoding="utf-8").split("\n\n") if text.strip()]


def write_corpus(folder: Path, texts: list[str]) -> Path:
    """JSON lines in four files, one of them compressed, with a few records that are empty."""
    folder.mkdir()
    for i in range(4):
        mine = texts[i * len(texts) // 4 : (i + 1) * len(texts) // 4]
        data = "".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate([*mine, " \n"])).encode()
        (folder / f"{i}.jsonl{'.gz' if i == 2 else ''}").write_bytes(gzip.compress(data) if i == 2 else data)
    return folder


def run(started: Started, log: Path, *flags: object, code: int = 0, **env: str) -> str:
    """Pack to the end; returns what it printed."""
    process = started.start((*PACK, *map(str, flags)), log, **env)
    assert process.wait(WAIT) == code, process.output()
    return process.output()


def content(folder: Path) -> dict[str, bytes]:
    """All files by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def ids(folder: Path, split: str) -> list[int]:
    """Token ids of all shards of a split."""
    import numpy as np

    index = json.loads((folder / "index.json").read_text())
    shards = [np.fromfile(folder / s["file"], DTYPES[index["dtype"]]) for s in index["splits"][split]["shards"]]
    tokens: list[int] = np.concatenate(shards).tolist()
    return tokens


@pytest.mark.ray
def test_the_same_input_gives_the_same_bytes_however_it_is_cut_and_where_it_runs(
    tmp_path: Path, tokenizer: Path, loaded: Any, cluster: Cluster, started: Started
) -> None:
    texts = paragraphs()
    corpus = write_corpus(tmp_path / "corpus", texts)
    flags = (*("--tokenizer", tokenizer, "--validation-fraction=0.05", "--shard-tokens=10000"), "--input", corpus)
    log = tmp_path / "log"
    shown = run(started, log, *flags, "--output", tmp_path / "a", "--task-bytes=5000", RAY_ADDRESS=cluster.address)
    with tempfile.TemporaryDirectory(prefix="rt-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        run(started, tmp_path / "log-b", *flags, "--output", tmp_path / "b" / "deep", RAY_TMPDIR=folder)
        started.end()
    assert content(tmp_path / "a") == content(tmp_path / "b" / "deep")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "corpus", "log", "log-b"]

    wanted: dict[str, list[int]] = {"train": [], "validation": []}
    held_out = 0
    for text in texts:
        mark = int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)
        wanted["validation" if mark < 0.05 * 2**64 else "train"] += [*loaded.encode(text), loaded.eos_token_id]
        held_out += mark < 0.05 * 2**64
    index = json.loads((tmp_path / "a" / "index.json").read_text())
    for split, tokens in wanted.items():
        assert ids(tmp_path / "a", split) == tokens
        told = index["splits"][split]
        assert told["tokens"] == len(tokens)
        assert told["unigramEntropy"] == pytest.approx(entropy_of(tokens))
        assert [s["file"] for s in told["shards"]] == [f"{split}-{i:05d}.bin" for i in range(len(told["shards"]))]
        for shard in told["shards"]:
            data = (tmp_path / "a" / shard["file"]).read_bytes()
            assert shard["sha256"] == hashlib.sha256(data).hexdigest()
            assert data.endswith(loaded.eos_token_id.to_bytes(2, "little"))
        assert all(s["tokens"] >= 10000 for s in told["shards"][:-1])
    assert len(index["splits"]["train"]["shards"]) > 5
    assert [index["splits"][s]["documents"] for s in wanted] == [len(texts) - held_out, held_out]
    assert index["tokenizer"]["name"] == "bpe"
    assert (index["dtype"], index["vocabSize"], index["eos"]) == ("uint16", VOCAB, loaded.eos_token_id)

    lines = shown.splitlines()
    assert lines[0].startswith(f"train: {len(texts) - held_out:,} documents, {len(wanted['train']):,} tokens, ")
    assert lines[1].startswith(f"validation: {held_out} documents, {len(wanted['validation']):,} tokens, unigram")
    assert lines[2:] == ["skipped: 4 empty documents", f"packed: {tmp_path / 'a'} (uint16)"]

    data = PackedTokens.open(str(tmp_path / "a"), "train", sequence_length=64, seed=1, vocab_size=VOCAB)
    rows = [data.sequence(i).tolist() for i in range(data.sequences)]
    assert rows == [wanted["train"][i * 64 : i * 64 + 65] for i in range(data.sequences)]
    assert loaded.decode(rows[0]) == loaded.decode(wanted["train"][:65])


@pytest.mark.ray
def test_chats_go_through_the_template_and_an_address_takes_the_output(
    tmp_path: Path, tokenizer: Path, loaded: Any, cluster: Cluster, started: Started
) -> None:
    """The address is of this machine, and takes the code path of `s3://`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chats = [[{"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": f"{i}!"}] for i in range(500)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"messages": chats}), tmp_path / "in" / "a.parquet", row_group_size=100)
    output = tmp_path / "out"
    flags = ("--tokenizer", tokenizer, "--chat-field=messages", "--input", f"file://{tmp_path}/in/*.parquet")
    env = {"RAY_ADDRESS": cluster.address}
    packed = (*flags, "--output", f"file://{output}", "--validation-fraction=0")
    run(started, tmp_path / "log", *packed, "--shard-tokens=1000", **env)
    wanted: list[int] = []
    for i in range(500):
        text = f"<|im_start|>user\n{i}?<|im_end|>\n<|im_start|>assistant\n{i}!<|im_end|>\n"
        wanted += [*loaded.encode(text), loaded.eos_token_id]
    assert ids(output, "train") == wanted
    assert len(list(output.iterdir())) > 5
    again = run(started, tmp_path / "log2", *packed, code=1, **env)
    assert again == f"--output file://{output}: packed tokens are there already; --force replaces them\n"
    run(started, tmp_path / "log3", *packed, "--force", **env)
    assert ids(output, "train") == wanted
    assert sorted(content(output)) == ["index.json", "train-00000.bin"]


@pytest.mark.ray
def test_the_first_error_in_the_order_of_the_files_ends_it_and_nothing_is_left(
    tmp_path: Path, tokenizer: Path, cluster: Cluster, started: Started
) -> None:
    corpus = write_corpus(tmp_path / "corpus", paragraphs())
    good = (corpus / "1.jsonl").read_bytes()
    count = good.count(b"\n")
    (corpus / "1.jsonl").write_bytes(good + b"{}\n")
    (corpus / "3.jsonl").write_bytes(b"no json\n")
    (tmp_path / "out").mkdir()
    flags = ("--tokenizer", tokenizer, "--input", corpus, "--output", tmp_path / "out", "--task-bytes=5000")
    env = {"RAY_ADDRESS": cluster.address}
    shown = run(started, tmp_path / "log", *flags, code=1, **env)
    assert shown == f"{corpus}/1.jsonl line {count + 1}: no field text, only ; choose with --text-field\n"
    for path in corpus.iterdir():
        path.write_bytes(b'{"text": ""}\n' if path.suffix == ".jsonl" else gzip.compress(b""))
    shown = run(started, tmp_path / "log2", *flags, code=1, **env)
    assert shown == f"{corpus}: no document with any text (4 files, 3 empty documents)\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "log", "log2", "out"]
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.ray
def test_a_stopped_pack_leaves_nothing(tmp_path: Path, tokenizer: Path, cluster: Cluster, started: Started) -> None:
    corpus = tmp_path / "a.jsonl"
    corpus.write_text((json.dumps({"text": "all work and no play. " * 200}) + "\n") * 5000, encoding="utf-8")
    flags = ("--tokenizer", tokenizer, "--input", corpus, "--output", tmp_path / "out", "--shard-tokens=1000")
    command = (*PACK, *map(str, flags), "--task-bytes=100000")
    process: Process = started.start(command, tmp_path / "log", RAY_ADDRESS=cluster.address)
    until(lambda: list(tmp_path.glob(".out.part-*/train-00001.bin")), WAIT, "the second shard")
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait(WAIT) == 143, process.output()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "log"]


@pytest.mark.ray
@pytest.mark.full
def test_a_corpus_of_three_times_the_object_store_is_never_spilled(
    tmp_path: Path, tokenizer: Path, cluster: Cluster
) -> None:
    """Two bytes per token make as much of the tokens: all of it passes through a store of 80 MB, and the driver."""
    text = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    pieces = [text[i : i + 8192] for i in range(0, len(text), 8192)]

    def peak(size: int) -> int:
        """Largest memory of the driver, in bytes."""
        written = 0
        corpus = tmp_path / f"{size}.jsonl"
        with corpus.open("w", encoding="utf-8") as stream:
            while written < size:
                written += sum(stream.write(json.dumps({"text": f"{written} {p}"}) + "\n") for p in pieces)
        flags = ["--tokenizer", str(tokenizer), "--input", str(corpus), "--output", str(tmp_path / f"out{size}")]
        script = "import resource, sys, training.pack; code = training.pack.main(sys.argv[1:]); " + (
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)"
        )
        env = environment(RAY_ADDRESS=cluster.address)
        done = subprocess.run([sys.executable, "-c", script, *flags], env=env, check=True, capture_output=True)
        return int(done.stdout.split()[-1]) * 1024

    small, large = peak(2_000_000), peak(240_000_000)
    assert sum(path.stat().st_size for path in (tmp_path / "out240000000").glob("*.bin")) > 220_000_000
    # What is mapped of the store counts too, and that is 80 MB at most.
    assert large - small < 160_000_000, (small, large)
    shown = subprocess.run(
        [*RAY, "memory", "--stats-only", f"--address={cluster.address}"],
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "Plasma memory usage" in shown
    assert "Spilled" not in shown, shown


def test_wrong_use_is_explained(
    tmp_path: Path, tokenizer: Path, loaded: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, other = tmp_path / "a.jsonl", tmp_path / "other"
    corpus.write_text('{"text": "a"}\n')
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    bare = make_tokenizer(tmp_path / "bare", chat=False)
    plain = json.loads((bare / "tokenizer_config.json").read_text())
    endless = tmp_path / "endless"
    endless.mkdir()
    (endless / "tokenizer.json").write_bytes((bare / "tokenizer.json").read_bytes())
    (endless / "tokenizer_config.json").write_text(json.dumps({k: v for k, v in plain.items() if k != "eos_token"}))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")

    def said(code: int, **given: object) -> str:
        flags = {"input": corpus, "tokenizer": tokenizer, "output": tmp_path / "out", **given}
        listed = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items() if value is not None]
        try:
            assert main([flag.replace("=True", "") for flag in listed]) == code
        except SystemExit as ended:
            assert ended.code == code
        return capsys.readouterr().err

    assert "none: no such file" in said(1, input=tmp_path / "none")
    assert "notes.txt: is a file, and must be a folder" in said(1, output=other / "notes.txt")
    for force in (None, True):
        assert "holds other files than packed tokens, such as notes.txt" in said(1, output=other, force=force)
    assert "cannot be opened" in said(1, output="gopher://a/b")
    shown = said(1, tokenizer=tmp_path / "none")
    assert re.search(r"--tokenizer .*none: cannot be loaded \(.*\); give the folder of the model", shown)
    assert "cannot be loaded" in said(1, tokenizer=other)
    assert "has no chat template; take an instruct" in said(1, tokenizer=bare, chat_field="messages")
    assert "has no EOS token" in said(1, tokenizer=endless)
    assert "--validation-fraction=0.6 must be 0 to 0.5" in said(2, validation_fraction=0.6)
    assert "must be 1 or more" in said(2, shard_tokens=0)
    assert "invalid choice: 'csv'" in said(2, format="csv")
    assert not (tmp_path / "out").exists()
