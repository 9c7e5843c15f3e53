"""Where in a text a value is replaced, a key added or taken out. What the result says is checked by the caller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from generator.diagnostics.finding import Pointer, dotted
from generator.edit.errors import EditError
from generator.edit.nodes import Entry, Node, line_end, line_start, nodes, walk
from generator.edit.scalars import block, inline

_COMMENT = re.compile(r"(?P<before>[ \t,:\]}]*?)(?P<pad>[ \t]+)#")
_STEP = "  "


@dataclass(slots=True)
class Text:
    """A valid YAML text and its nodes."""

    text: str
    root: Node = field(init=False)
    eol: str = field(init=False)

    def __post_init__(self) -> None:
        self.root = nodes(self.text)
        self.eol = "\r\n" if "\r\n" in self.text else "\n"

    def put(self, path: Pointer, data: Any) -> str:
        """The text with the value at `path` as `data`, the whole file's content after the change, has it."""
        node, entry = self.root, None
        for index, part in enumerate(path):
            wanted = _at(data, path[: index + 1])
            if node.kind == "alias":
                return self._through_alias(node, part, wanted)
            if node.empty:
                return self._fill(node, entry, {part: wanted})
            found = node.find(part)
            if found is None:
                return self._insert(node, part, wanted)
            node, entry = found.value, found
        return self._replace(node, entry, _at(data, path))

    def remove(self, path: Pointer) -> str:
        """The text without the key or item at `path`."""
        node, parent = self.root, None
        for part in path[:-1]:
            found = node.find(part)
            if found is None or found.value.kind == "alias":
                raise EditError(f"`{dotted(path)}` comes from an alias or `<<`: remove it there, or in an editor")
            node, parent = found.value, found
        entry = node.find(path[-1])
        if entry is None:
            raise EditError(f"`{dotted(path)}` comes from `<<`: remove it there, or in an editor")
        self._refuse_anchors(entry.value)
        if node.flow:
            return self._remove_flow(node, entry)
        if len(node.entries) == 1:
            if parent is None or parent.key is None:
                raise EditError(f"`{dotted(path)}` is all that is there: remove it in an editor")
            self._refuse_anchor(node, parent.value)
            return self._instead_of_block(parent, "{}" if node.kind == "map" else "[]")
        return self._remove_block(node, entry)

    def _replace(self, node: Node, entry: Entry | None, value: Any) -> str:
        if entry is None:
            raise EditError("the whole file cannot be replaced")
        if node.empty:
            return self._fill(node, entry, value)
        if node.kind in ("map", "list"):
            self._refuse_anchors(node)
            if not node.flow:
                return self._instead_of_block(entry, inline(value))
        start = node.start
        if node.anchor and node.kind != "alias":
            self._refuse_anchors(node)
            start += len(f"&{node.anchor}")
            return self._splice(start, node.end, " " + inline(value, node.style))
        return self._splice(start, node.end, inline(value, node.style))

    def _fill(self, node: Node, entry: Entry | None, value: Any) -> str:
        """A value for `key:`, which has none."""
        if entry is None or entry.key is None:
            raise EditError("an empty item of a list stands there: write its value in an editor")
        if not self.text[: entry.end].endswith(":"):
            raise EditError(f"`{entry.key.value}` is not written as `key: value`: change it in an editor")
        in_flow = self._in_flow(entry)
        if isinstance(value, Mapping) and value and not in_flow:
            indent = " " * (entry.key.start - line_start(self.text, entry.key.start)) + _STEP
            at = line_end(self.text, entry.end)
            lines = [block(str(key), item, indent, _STEP, self.eol) for key, item in value.items()]
            return self.text[:at] + self.eol + self.eol.join(lines) + self.text[at:]
        return self._splice(entry.end, entry.end, " " + inline(value))

    def _through_alias(self, node: Node, part: str | int, value: Any) -> str:
        """`*a` with one key of its own: the rest still comes from the anchor."""
        if isinstance(part, int):
            raise EditError(f"the list comes from the alias *{node.anchor}: change it in an editor")
        own = inline({part: value})[1:-1]
        return self._splice(node.start, node.end, f"{{<<: *{node.anchor}, {own}}}")

    def _insert(self, node: Node, part: str | int, value: Any) -> str:
        """A new key or item at the end of a map or list."""
        if node.kind == "scalar":
            raise EditError(f"`{node.value}` is a single value: there is no place for `{part}` below it")
        if node.flow:
            item = inline({part: value})[1:-1] if node.kind == "map" else inline(value)
            if not node.entries:
                inside = self.text.rindex("{" if node.kind == "map" else "[", node.start, node.end) + 1
                return self._splice(inside, node.end - 1, item)
            return self._splice(node.entries[-1].end, node.entries[-1].end, f", {item}")
        indent = " " * node.column
        written = (
            block(str(part), value, indent, _STEP, self.eol) if node.kind == "map" else f"{indent}- {inline(value)}"
        )
        at = self._after_comments(line_end(self.text, max(node.entries[-1].end, node.start)), node.column)
        return self.text[:at] + self.eol + written + self.text[at:]

    def _after_comments(self, at: int, column: int) -> int:
        """Past the lines of comment that follow, where they are indented as the map is: they belong to it."""
        following = re.compile(rf"(\r\n|\n|\r)[ ]{{{column},}}#[^\r\n]*")
        while found := following.match(self.text, at):
            at = found.end()
        return at

    def _instead_of_block(self, entry: Entry, written: str) -> str:
        """One line in place of a block of lines below a key; the comment beside the key stays."""
        if entry.key is None:
            raise EditError("an item of a list is a block of lines: change it in an editor")
        colon = re.compile(r"[ \t]*:").match(self.text, entry.key.end)
        if colon is None:
            raise EditError(f"`{entry.key.value}` is not written as `key: value`: change it in an editor")
        first = line_end(self.text, colon.end())
        last = line_end(self.text, entry.end)
        if last <= first:
            return self._splice(colon.end(), entry.end, f" {written}")
        without = self.text[:first] + self.text[last:]
        return Text._spliced(without, colon.end(), colon.end(), f" {written}", colon.end())

    def _remove_flow(self, node: Node, entry: Entry) -> str:
        index = node.entries.index(entry)
        if len(node.entries) == 1:
            comma = re.compile(r"\s*,").match(self.text, entry.end)
            return self._splice(entry.start, comma.end() if comma else entry.end, "")
        if index > 0:
            return self._splice(node.entries[index - 1].end, entry.end, "")
        return self._splice(entry.start, node.entries[1].start, "")

    def _remove_block(self, node: Node, entry: Entry) -> str:
        start = line_start(self.text, entry.start)
        before = self.text[start : entry.start]
        if before.strip(" " if node.kind == "map" else " -"):  # `- a: 1`: the dash is the list's
            following = node.entries[node.entries.index(entry) + 1 :]
            if node.entries[0] is not entry or not following:
                raise EditError("it shares its line with something else: remove it in an editor")
            return self.text[: entry.start] + self.text[following[0].start :]
        end = line_end(self.text, entry.end)
        if end == len(self.text):
            before_it = len(self.text[:start].removesuffix("\n").removesuffix("\r"))
            if not any(other.style in ("|", ">") and other.end == before_it for other in walk(self.root)):
                start = before_it  # a block of text would lose its last line break
        else:
            end += 2 if self.text.startswith("\r\n", end) else 1
        return self.text[:start] + self.text[end:]

    def _splice(self, start: int, end: int, written: str) -> str:
        return Text._spliced(self.text, start, end, written, self._last_on_line(end))

    @staticmethod
    def _spliced(text: str, start: int, end: int, written: str, last: int) -> str:
        """`written` in place of `start` up to `end`. `last`: where on that line its last value ends.

        A comment after it keeps its column where there is room. One space before it is no column of its own, unless a
        neighbouring line's comment stands in the same.
        """
        comment = _COMMENT.match(text, last, line_end(text, last))
        grown = len(written) - (end - start)
        one_line = not re.search("[\n\r]", text[start:end])
        if comment is None or not one_line or not grown:
            return text[:start] + written + text[end:]
        pad = len(comment["pad"])
        if pad > 1 or _aligned(text, comment.end() - 1):
            pad = max(1, pad - grown)
        return text[:start] + written + text[end : comment.start("pad")] + " " * pad + text[comment.end() - 1 :]

    def _last_on_line(self, offset: int) -> int:
        """Where the last key or value on the line of `offset` ends; nothing but a comment can follow."""
        stop = line_end(self.text, offset)
        ends = [entry.end for node in walk(self.root) for entry in node.entries if offset <= entry.end <= stop]
        ends += [node.end for node in walk(self.root) if node.flow and offset <= node.end <= stop]
        return max(ends, default=offset)

    def _in_flow(self, entry: Entry) -> bool:
        return any(node.flow and node.start < entry.start < node.end for node in walk(self.root))

    def _refuse_anchors(self, node: Node) -> None:
        for inside in walk(node):
            self._refuse_anchor(inside, node)

    def _refuse_anchor(self, node: Node, gone: Node) -> None:
        """An anchor that is used elsewhere cannot go."""
        if not node.anchor or node.kind == "alias":
            return
        for other in walk(self.root):
            if other.kind == "alias" and other.anchor == node.anchor and not gone.start <= other.start < gone.end:
                line = len(re.findall("\r\n|[\n\r]", self.text[: other.start])) + 1
                raise EditError(
                    f"the value carries the anchor &{node.anchor}, which line {line} uses: change both in an editor"
                )


def _aligned(text: str, hash_at: int) -> bool:
    """Whether the comment of the line before or after stands in the same column."""
    start, stop = line_start(text, hash_at), line_end(text, hash_at)
    column = hash_at - start
    before = text[line_start(text, max(start - 1, 0)) : max(start - 1, 0)] if start else ""
    after = text[stop : line_end(text, stop + 2)].lstrip("\r\n")
    return any(line[column : column + 1] == "#" and line[:column].strip() for line in (before, after))


def _at(data: Any, path: Pointer) -> Any:
    for part in path:
        data = data[part]
    return data
