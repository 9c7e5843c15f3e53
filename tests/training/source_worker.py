"""One rank of a test: fetches a source and writes the answer. Arguments: URI, revision, scratch folder, kind, result.

NODE in the scratch folder is the rank's node, RANK in the URI the rank.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from training import source, topology
from training.contract import RunEndError


def main() -> None:
    uri, revision, scratch, kind, result = sys.argv[1:]
    place = topology.Place.from_env(os.environ)
    with topology.process_group(place, cuda=False, timeout_s=int(os.environ.get("WAIT_S", "60"))):
        try:
            folder = Path(scratch.replace("NODE", str(place.node_rank)))
            answer = str(source.fetch(uri.replace("RANK", str(place.rank)), revision, folder, place, kind=kind))
        except RunEndError as error:
            answer = f"{int(error.code)} {error.lasting} {error.message}"
    Path(f"{result}-{place.rank}").write_text(answer)


if __name__ == "__main__":
    main()
