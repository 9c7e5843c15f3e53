"""What one GPU shows of the training: the model in and out, speed and memory of the presets, and a killed run.

    python bench/one_gpu.py results.json [--tiny]     # --tiny: the same steps on a CPU, to try this script

Each case is a process of its own, `python -m training.train --num-workers=0`; the figures are those of its `run.json`.
The predicted memory is `training/sizes.py`'s. One GPU says nothing of networks, EFA or several ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
STEPS = 12
SKIPPED = 4  # steps of warming up, which are not counted

CASES: dict[str, tuple[str, ...]] = {
    "qwen2.5-1.5b, micro-batch 4, no recomputation": ("--micro-batch-size=4", "--activation-checkpointing=none"),
    "qwen2.5-1.5b, micro-batch 16, alternate": ("--micro-batch-size=16", "--activation-checkpointing=alternate"),
    "qwen2.5-1.5b, micro-batch 4, none, compiled": (
        *("--micro-batch-size=4", "--activation-checkpointing=none", "--compile=true"),
    ),
    "aws-sample": ("--preset=aws-sample", "--global-batch-size=1"),
}


def train(run: Path, *flags: str, kill_after: int = 0) -> dict[str, Any]:
    """One process; returns its run record and how long it took. `kill_after`: SIGKILL once that step is recorded."""
    began = time.monotonic()
    command = [sys.executable, "-m", "training.train", "--num-workers=0", "--log-every=1", f"--run-path={run}", *flags]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}
    log = run.with_suffix(".log")
    with log.open("ab") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=stream, stderr=stream)
        while kill_after and process.poll() is None:
            if f"step {kill_after}/" in log.read_text(encoding="utf-8"):
                process.send_signal(signal.SIGKILL)
            time.sleep(0.05)
        code = process.wait()
    if code != 0 and not kill_after:
        raise SystemExit(f"{' '.join(command)} ended with {code}\n{log.read_text(encoding='utf-8')[-3000:]}")
    record: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    return {"seconds": time.monotonic() - began, "record": record}


def random_model(folder: Path, preset: str) -> None:
    """A model of the preset's shape with random values, as transformers writes it."""
    import torch
    from transformers import Qwen2ForCausalLM

    from training.config import build
    from training.model import meta_model

    settings = meta_model(build(preset).model, 2048).config
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(settings).to(torch.bfloat16)
    model.save_pretrained(folder)


def same_tensors(one: Path, other: Path) -> bool:
    """Whether two directories hold equal tensors."""
    from safetensors.torch import load_file

    found = [{k: v for f in sorted(d.glob("*.safetensors")) for k, v in load_file(f).items()} for d in (one, other)]
    return found[0].keys() == found[1].keys() and all(v.equal(found[1][k]) for k, v in found[0].items())


def measure(folder: Path, *, tiny: bool) -> dict[str, Any]:
    """All cases."""
    import torch

    from training.config import build
    from training.sizes import gpu_memory

    preset = "tiny" if tiny else "qwen2.5-1.5b"
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "cases": {},
    }
    model = folder / "model"
    random_model(model, preset)
    begin = (f"--preset={preset}", f"--model={model}", "--validation-sequences=0", "--checkpoint-every=0")
    out = train(folder / "round-trip", *begin, "--steps=0", "--export=bfloat16")
    found["roundTrip"] = {
        "equal": same_tensors(model, folder / "round-trip" / "export"),
        "bytes": sum(f.stat().st_size for f in model.glob("*.safetensors")),
        "secondsFromStartToEnd": out["seconds"],
    }
    for name, flags in CASES.items():
        preset_flags = begin if "--preset=aws-sample" not in flags else begin[2:]
        chosen = flags
        if tiny:
            chosen = tuple(f for f in flags if "compile" not in f and "preset" not in f and "batch" not in f)
            preset_flags = begin
        run = folder / "case"
        record = train(run, *preset_flags, *chosen, "--schedule=constant", f"--steps={STEPS}")["record"]
        settings = {k: v for k, v in record["configuration"].items() if k != "preset"}
        times = [step["seconds"] for step in record["steps"][SKIPPED:]]
        tokens = settings["global_batch_size"] * settings["sequence_length"]
        config = build(record["configuration"]["preset"], settings)
        found["cases"][name] = {
            "stepSeconds": times,
            "tokensPerSecond": tokens / statistics.median(times),
            "mfu": record["intervals"][-1].get("mfu"),
            "peakBytes": max(i["memoryBytes"] for i in record["intervals"]),
            "predictedBytes": gpu_memory(config, nodes=1, processes_per_node=1).total,
            "lossFirstLast": [record["steps"][0]["loss"], record["steps"][-1]["loss"]],
        }
        print(name, json.dumps({k: v for k, v in found["cases"][name].items() if k != "stepSeconds"}), flush=True)
        shutil.rmtree(run)
    steady = (*begin[:3], "--schedule=constant", "--warmup-fraction=0", "--steps=9", "--checkpoint-every=5")
    steady = (*steady, "--keep-checkpoints=1", "--micro-batch-size=4", "--global-batch-size=8")
    shutil.rmtree(folder / "round-trip")
    losses = {}
    for name in ("undisturbed", "killed"):
        if name == "killed":
            train(folder / name, *steady, kill_after=7)
        steps = train(folder / name, *steady)["record"]["steps"]
        losses[name] = [step["loss"] for step in steps]
        shutil.rmtree(folder / name)
    found["killedAndResumed"] = losses | {
        "largestDifference": max(abs(a - b) for a, b in zip(*losses.values(), strict=True))
    }
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--tiny", action="store_true", help="the tiny preset on whatever there is, to try this script")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="one-gpu-") as folder:
        found = measure(Path(folder), tiny=given.tiny)
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({k: v for k, v in found.items() if k != "cases"}))


if __name__ == "__main__":
    main()
