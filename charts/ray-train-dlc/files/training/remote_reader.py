"""Read a checkpoint at an address with DCP: each rank asks for its own parts, without a copy on a disk."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from training.storage import Storage


def open_reader(storage: Storage, name: str) -> Any:
    """DCP's reader of files, on the folder `name` of `storage`; reading raises what `Storage.open` does."""
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.filesystem import FileSystem

    class Files(FileSystem):  # type: ignore[misc]
        """Paths are names in the storage."""

        @contextmanager
        def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
            """Open a file; `mode` is always that of reading."""
            del mode
            with storage.open(os.fspath(path)) as stream:
                yield stream

    class Reader(FileSystemReader):  # type: ignore[misc]
        """FileSystemReader on `Files`."""

        def __init__(self) -> None:
            super().__init__(name)
            self.fs = Files()

        def read_data(self, plan: Any, planner: Any) -> Any:
            """Read what `plan` asks for, in the order of the files: what lies together comes with one request."""

            def position(item: Any) -> tuple[str, int]:
                info = self.storage_data[item.storage_index]
                return info.relative_path, info.offset

            return super().read_data(dataclasses.replace(plan, items=sorted(plan.items, key=position)), planner)

    return Reader()
