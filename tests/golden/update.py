"""`python -m tests.golden.update`: write the golden tree anew. Read the difference before committing it."""

from __future__ import annotations

import shutil

from tests.golden.tree import GOLDEN, tree


def main() -> None:
    shutil.rmtree(GOLDEN, ignore_errors=True)
    for path, text in tree().items():
        target = GOLDEN / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(f"tests/golden/demo/{path}")


if __name__ == "__main__":
    main()
