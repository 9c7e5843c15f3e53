"""Step time and bytes of `full` and `hsdp` sharding over a slow network: 2 nodes × 2 gloo ranks on this machine.

The nodes are network namespaces joined by a veth of a limited rate, so the machine must be Linux, with root, `ip` and
`tc`. Both shardings take turns, because the load of a machine drifts. Appends a file to bench/results/.

    python bench/hsdp_network.py --rate=1gbit --repeats=5
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from machine import machine

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.training.namespaces import INTERFACE, Node, start_ranks, two_nodes, unavailable  # noqa: E402
from tests.training.processes import TRAIN, Started  # noqa: E402
from training import config, sizes  # noqa: E402

RESULTS = ROOT / "bench" / "results"
SHARDINGS = ("full", "hsdp")
LAYOUT = {"nodes": 2, "processes_per_node": 2}
# 12.3 million parameters and 8 tokens a sequence: little work beside the bytes, though gloo itself costs CPU time.
SETTINGS: dict[str, object] = {
    "vocab_size": 512,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "layers": 4,
    "heads": 8,
    "kv_heads": 2,
    "sequence_length": 8,
    "global_batch_size": 4,
    "checkpoint_every": 0,
    "validation_sequences": 0,
}


def train(nodes: tuple[Node, Node], sharding: str, steps: int) -> dict[str, Any]:
    """One training: seconds of each step but the first, and bytes per step that each node sent and received."""
    settings = {**SETTINGS, "sharding": sharding, "steps": steps, "log_every": steps}
    flags = tuple(f"--{name.replace('_', '-')}={value}" for name, value in settings.items())
    started = Started()
    with tempfile.TemporaryDirectory() as folder:
        try:
            command = (*TRAIN, "--num-workers=0", f"--run-path={folder}/run", *flags)
            ranks = start_ranks(started, nodes, command, Path(folder))
            for rank in ranks:
                if rank.wait(900):
                    raise RuntimeError(rank.output())
            record = json.loads(Path(folder, "run", "run.json").read_text(encoding="utf-8"))
        finally:
            started.end()
    moved = [node[INTERFACE] for node in record["intervals"][-1]["network"]]
    return {
        "seconds": [step["seconds"] for step in record["steps"][1:]],
        "sentPerStep": [round(node["sent"] / (steps - 1)) for node in moved],
        "receivedPerStep": [round(node["received"] / (steps - 1)) for node in moved],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--rate", default="1gbit", help="of each direction, as tc writes it (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="trainings of each sharding (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=6, help="of each training, the first not counted (%(default)s)")
    given = parser.parse_args()
    if given.repeats < 1 or given.steps < 2:
        parser.error("at least one repeat, and two steps")
    if reason := unavailable():
        parser.error(reason)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in SHARDINGS}
    load = os.getloadavg()[0]
    with two_nodes(rate=given.rate) as nodes:
        for _ in range(given.repeats):
            for name in SHARDINGS:
                runs[name].append(train(nodes, name, given.steps))
    expected = {
        name: sizes.nic_bytes_per_step(config.build("tiny", {**SETTINGS, "sharding": name}), **LAYOUT, cuda=False)
        for name in SHARDINGS
    }
    medians = {name: statistics.median(s for run in runs[name] for s in run["seconds"]) for name in SHARDINGS}
    sent = {name: statistics.median(b for run in runs[name] for b in run["sentPerStep"]) for name in SHARDINGS}
    ratios = [
        statistics.median(f["seconds"]) / statistics.median(h["seconds"]) for f, h in zip(*runs.values(), strict=True)
    ]
    now = datetime.now(UTC)
    record = {
        "date": now.isoformat(timespec="seconds"),
        "rate": given.rate,
        "layout": LAYOUT,
        "settings": SETTINGS,
        "parameters": sizes.parameter_count(config.build("tiny", SETTINGS).model),
        "machine": {**machine(load), "torch": metadata.version("torch")},
        "runs": runs,
        "expectedBytesPerStep": expected,
        "medianSentPerStep": sent,
        "medianSeconds": medians,
        "ratio": {
            "seconds": round(medians["full"] / medians["hsdp"], 3),
            "secondsOfEachPair": [round(ratio, 3) for ratio in ratios],
            "bytes": round(sent["full"] / sent["hsdp"], 3),
            "expectedBytes": round(expected["full"] / expected["hsdp"], 3),
        },
    }
    path = RESULTS / f"{now:%Y-%m-%d}-hsdp-network-{given.rate}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    table = markdown(record)
    path.with_suffix(".md").write_text(table, encoding="utf-8")
    print(f"{table}\n{path.relative_to(ROOT)}")
    return 0


def markdown(record: dict[str, Any]) -> str:
    """The figures as a table."""
    machine, ratio = record["machine"], record["ratio"]
    lines = [
        f"# `full` against `hsdp` at {record['rate']} between two nodes, {record['date'][:10]}",
        "",
        f"2 nodes × 2 gloo ranks in network namespaces of one machine ({machine['cores']} cores, {machine['system']}, "
        f"torch {machine['torch']}), {record['parameters']:,} parameters in float32. Medians of "
        f"{len(record['runs']['full'])} trainings of each, which took turns; raw figures in the JSON file beside this.",
        "",
        "| sharding | s per step | min – max | MB sent per node and step | by `training/sizes.py` |",
        "|---|---|---|---|---|",
    ]
    for name in SHARDINGS:
        seconds = [s for run in record["runs"][name] for s in run["seconds"]]
        lines.append(
            f"| `{name}` | {record['medianSeconds'][name]:.3f} | {min(seconds):.3f} – {max(seconds):.3f} | "
            f"{record['medianSentPerStep'][name] / 1e6:.1f} | {record['expectedBytesPerStep'][name] / 1e6:.1f} |"
        )
    pairs = ratio["secondsOfEachPair"]
    lines += [
        f"| ratio | {ratio['seconds']:.2f} | {min(pairs):.2f} – {max(pairs):.2f} | {ratio['bytes']:.2f} | "
        f"{ratio['expectedBytes']:.2f} |",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
