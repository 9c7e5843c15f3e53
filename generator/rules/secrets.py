"""Credentials in the file itself (RTD642): whoever reads the repository has them, also after they are removed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.diagnostics.finding import Finding, Pointer
from generator.rules.context import Context

# What a value looks like, by the documents of those who issue it.
_FORMS = {
    "an AWS access key": r"\b(AKIA|ASIA)[A-Z0-9]{16}\b",
    "a token of the Hugging Face hub": r"\bhf_[A-Za-z0-9]{20,}\b",
    "a token of GitHub": r"\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})\b",
    "a token of GitLab": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "a token of Slack": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a private key": r"-----BEGIN ([A-Z]+ )*PRIVATE KEY-----",
    "a JSON Web Token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.",
    "an address with a password": r"://[^/\s:@]*:[^/\s@]+@",
}
_WORDS = ("password", "passwd", "passphrase", "secret", "token", "credential", "credentials")
_PAIRS = (("access", "key"), ("api", "key"), ("private", "key"), ("secret", "key"))
_OF_A_TOKENIZER = ("bos", "cls", "end", "eos", "image", "mask", "pad", "sep", "special", "start", "unk")
# Not the thing itself: `<pad>`, a reference to another variable, a path.
_HARMLESS = re.compile(r"<.*>|\$\(.*\)|/.*|")


def literal_credentials(ctx: Context) -> Iterator[Finding]:
    source = ctx.loaded.environment.source
    for key in ("env", "training", "job", "values", "commonLabels", "commonAnnotations", "serviceAccount"):
        for path, name, text in _texts(source.data.get(key), (key,), key):
            form = next((what for what, pattern in _FORMS.items() if re.search(pattern, text)), "")
            named = path[:3] != ("training", "code", "files") and _names_one(name) and not _HARMLESS.fullmatch(text)
            if form or named:
                yield ctx.in_environment(
                    "RTD642",
                    *path,
                    on_key=True,
                    message=f"`{name}` holds {form or 'what its name says is a credential'}, in plain text",
                    notes=("it stays in the history of Git: if it is real, withdraw it where it was issued",),
                    help="put it into a Secret of the namespace, and name that in envFrom ([{secretRef: {name: …}}]) "
                    "or in env (secretKeyRef: {name: …, key: …})",
                )


def _texts(node: Any, path: Pointer, name: str) -> Iterator[tuple[Pointer, str, str]]:
    """(place, name, text) of all texts below `node`. The value of `{name: X, value: …}` goes by the name X."""
    if isinstance(node, str):
        yield path, name, node
    elif isinstance(node, Mapping):
        for key, child in node.items():
            given = node.get("name")
            called = (given if isinstance(given, str) else name) if key == "value" else str(key)
            yield from _texts(child, (*path, key), called)
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from _texts(child, (*path, index), name)


def _names_one(name: str) -> bool:
    """Whether a name ends like that of a credential: `HF_TOKEN`, `redisPassword`, but not `TOKENIZERS_PARALLELISM`."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)]
    if words[-1:] == ["token"] and words[-2:-1] and words[-2] in _OF_A_TOKENIZER:
        return False
    return bool(words) and (words[-1] in _WORDS or tuple(words[-2:]) in _PAIRS)


RULES = (literal_credentials,)
