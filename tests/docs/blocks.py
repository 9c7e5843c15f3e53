"""The fenced blocks of a documentation page."""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
from typing import Any

import yaml

from tests.helm import ROOT


def blocks(page: str, language: str) -> list[str]:
    """Texts of all blocks of one language in `docs/<page>`, without the indentation of a list."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", text, flags=re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for _, block in found]


def documents(page: str, name: str) -> list[list[dict[str, Any]]]:
    """Parsed YAML documents of each block that begins with `# <name>`."""
    texts = [text for text in blocks(page, "yaml") if re.match(rf"# {re.escape(name)}\b", text)]
    return [list(yaml.safe_load_all(text)) for text in texts]


def commands(page: str, *words: str) -> list[str]:
    """Commands after the `$ ` of console blocks that hold all `words`, each on one line, without its comment."""
    found = []
    for block in blocks(page, "console"):
        for command in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            line = command.strip().partition("  #")[0]
            if all(word in line for word in words):
                found.append(line)
    return found


def options(command: str, name: str) -> list[str]:
    """Values of the option `--<name>` in a command."""
    parts = shlex.split(command)
    return [after for part, after in itertools.pairwise(parts) if part == f"--{name}"]
