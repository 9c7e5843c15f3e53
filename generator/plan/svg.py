"""Drawings as inline SVG: shapes get their colours from classes of the page, so that both colour schemes apply.

Texts are cut to the room they have, as wide as the widest usual fonts draw them; `data-room` says that room in pixels.
"""

from __future__ import annotations

from html import escape

# Width of a character in sizes of the font: digits of DejaVu Sans, the widest of the usual fonts; plain and bold.
_EM, _BOLD_EM = 0.63, 0.70
_BOLD = ("strong", "on")


def cut(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """The text, or as much of it as surely fits, and an ellipsis."""
    most = int(room / (size * (_BOLD_EM if bold else _EM)))
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…"


class Svg:
    """Elements of one drawing, in the order in which they are painted."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._parts: list[str] = []
        self._right = self._bottom = 0.0

    def rect(self, x: float, y: float, width: float, height: float, style: str, radius: float = 4) -> None:
        self._grow(x + width, y + height)
        self._parts.append(
            f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{width:.6g}" height="{height:g}" rx="{radius:g}"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self._grow(max(x1, x2), max(y1, y2))
        self._parts.append(f'<line class="{style}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')

    def text(
        self, x: float, y: float, text: str, room: float, *, size: float = 12, style: str = "", anchor: str = "start"
    ) -> None:
        """`y` is the base line, `room` the width that the text may take from `x` on, in the direction of `anchor`."""
        shown = cut(text, room, size, bold=style in _BOLD)
        whole = f"<title>{escape(text)}</title>" if shown != text else ""
        self._grow(x + (room if anchor == "start" else room / 2 if anchor == "middle" else 0), y + size / 3)
        self._parts.append(
            f'<text class="{style}" x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" '
            f'data-room="{room:.6g}">{escape(shown)}{whole}</text>'
        )

    def _grow(self, right: float, bottom: float) -> None:
        self._right, self._bottom = max(self._right, right), max(self._bottom, bottom)

    def done(self) -> str:
        """The whole element, no wider on the page than it is drawn."""
        wide, high = self._right + 1, self._bottom + 2
        return (
            f'<svg role="img" aria-label="{escape(self._label)}" viewBox="0 0 {wide:g} {high:g}" '
            f'xmlns="http://www.w3.org/2000/svg" style="max-width: {wide:g}px">{"".join(self._parts)}</svg>'
        )
