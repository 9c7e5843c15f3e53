"""Files that people wrote, with changes: read, shown as a difference, and written all or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from generator.edit.changes import Change, apply
from generator.edit.errors import EditError
from generator.project import Project
from generator.render import write as writing


@dataclass(slots=True)
class Files:
    """Texts by path from the project's root, as they would be after the changes."""

    root: Path
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)

    def text(self, file: str) -> str | None:
        """What the file holds after the changes; None: there is no such file.

        Raises:
            EditError: it cannot be read, or lies outside of the project.
        """
        if file not in self.after:
            path = self._place(file)
            if not path.exists():
                return None
            try:
                self.before[file] = self.after[file] = path.read_bytes().decode()
            except (OSError, UnicodeDecodeError) as error:
                raise EditError(f"cannot read {file}: {error}") from error
        return self.after[file]

    def edit(self, file: str, changes: Iterable[Change]) -> None:
        """Change keys of one file."""
        text = self.text(file)
        if text is None:
            raise EditError(f"there is no file {file}")
        self.after[file] = apply(text, changes, file)

    def replace(self, file: str, text: str) -> None:
        """Give one file another text, or make it."""
        self.text(file)
        self.after[file] = text

    def planned(self) -> list[writing.Planned]:
        """The files that change."""
        return [
            writing.Planned(
                str(self._place(file).relative_to(self.root.resolve())),
                writing.Change.CHANGED if file in self.before else writing.Change.NEW,
                text,
                self.before.get(file),
            )
            for file, text in sorted(self.after.items())
            if self.before.get(file) != text
        ]

    def project(self) -> Project:
        """The project as it would be."""
        return Project(self.root, overlay={file: text.encode() for file, text in self.after.items()})

    def diff(self) -> str:
        """A unified diff of everything that changes."""
        return "".join(writing.diff(one) for one in self.planned())

    def write(self) -> None:
        """Write what changes: all of it, or nothing.

        Raises:
            generator.render.write.WriteError: nothing was written.
        """
        writing.write(self.root, self.planned())

    def _place(self, file: str) -> Path:
        """Where the file really is: a link stays one."""
        path = (self.root / file).resolve()
        if not path.is_relative_to(self.root.resolve()):
            raise EditError(f"{file} leads out of the project through a symbolic link: change it there")
        return path
