"""Make dist/ray-train-dlc-<version>.tgz, and print its SHA-256.

python -m generator.release [--output FOLDER] [--sign KEY]
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from generator.exits import OK, TOOL
from generator.release.changelog import ChangelogError
from generator.release.package import PackageError, package, sign
from generator.tools import ToolMissingError

CHART = Path(__file__).resolve().parents[2] / "charts" / "ray-train-dlc"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m generator.release", description="Package the chart for a release.")
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="FOLDER", help="default: dist")
    parser.add_argument("--sign", metavar="KEY", help="also write a .prov file, signed by gpg with this key")
    options = parser.parse_args()
    try:
        made = package(CHART, options.output)
        if options.sign:
            sign(made, options.sign)
    except (PackageError, ChangelogError, ToolMissingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return TOOL
    print(f"{hashlib.sha256(made.read_bytes()).hexdigest()}  {made}")
    return OK


if __name__ == "__main__":
    sys.exit(main())
