"""Real data for tests: packed folders written by hand, and a tokenizer trained on this repository's own documents."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from pathlib import Path

from tests.training.processes import ROOT

VOCAB = 512
EOS = "<|endoftext|>"
CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
)
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))


def make_tokenizer(folder: Path, *, chat: bool = True) -> Path:
    """Train a byte-level BPE tokenizer of `VOCAB` tokens on the repository's docs and save it as transformers does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = [EOS, "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train([str(path) for path in DOCUMENTS], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=EOS, additional_special_tokens=special[1:])
    if chat:
        tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    return folder


def entropy_of(tokens: list[int]) -> float:
    """Entropy of single tokens, in nats."""
    return -sum(n / len(tokens) * math.log(n / len(tokens)) for n in Counter(tokens).values())


def write_packed(
    folder: Path, *, shards: dict[str, list[list[int]]], dtype: str = "uint16", eos: int = 0, version: int = 1
) -> Path:
    """A packed folder: for each split the token ids of its shards; a document ends with every `eos`."""
    folder.mkdir(parents=True, exist_ok=True)
    width = {"uint16": 2, "uint32": 4}[dtype]
    splits = {}
    for split, contents in shards.items():
        listed = []
        for number, tokens in enumerate(contents):
            data = b"".join(token.to_bytes(width, "little") for token in tokens)
            name = f"{split}-{number:05d}.bin"
            (folder / name).write_bytes(data)
            listed.append(
                {
                    "file": name,
                    "tokens": len(tokens),
                    "documents": tokens.count(eos),
                    "largest": max(tokens),
                    "sha256": hashlib.sha256(data).hexdigest(),
                }
            )
        whole = [token for tokens in contents for token in tokens]
        splits[split] = {
            "tokens": len(whole),
            "documents": whole.count(eos),
            "unigramEntropy": entropy_of(whole),
            "shards": listed,
        }
    index = {
        "version": version,
        "dtype": dtype,
        "vocabSize": 1 + max(shard["largest"] for split in splits.values() for shard in split["shards"]),
        "tokenizer": {"name": "by-hand", "sha256": "0" * 64},
        "eos": eos,
        "source": {},
        "splits": splits,
    }
    (folder / "index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder
