"""A training of one's own, small enough to copy: a linear model under Ray Train, which resumes at its last checkpoint.

The chart runs it as `python -m own_training --preset=… --<argument>=…` (docs/own-code.md).
"""

import argparse
import os
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_model


def train(settings: dict[str, int]) -> None:
    """What each rank does."""
    rank, world_size = ray.train.get_context().get_world_rank(), ray.train.get_context().get_world_size()
    device = get_device()
    torch.manual_seed(0)  # the same weights on all ranks
    net = torch.nn.Linear(8, 1)
    model = prepare_model(net)  # onto the rank's GPU if it has one, and DistributedDataParallel
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    done = 0
    if checkpoint := ray.train.get_checkpoint():  # the newest of this run, after a lost rank or in a new try of the job
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder, "state.pt"), map_location=device)
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
        if rank == 0:
            print(f"resumed after step {done}", flush=True)
    for step in range(done + 1, settings["steps"] + 1):
        # Other data in each step and on each rank, and the same again after a resume.
        data = torch.Generator().manual_seed(step * world_size + rank)
        inputs = torch.randn(32, 8, generator=data).to(device)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % settings["checkpoint_every"] and step != settings["steps"]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:  # all ranks have the same state
                state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(state, Path(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
                print(f"step {step}/{settings['steps']}  loss {loss.item():.4f}", flush=True)
            ray.train.report({"step": step, "loss": loss.item()}, checkpoint=checkpoint)  # by all ranks together


def main() -> None:
    """Read what the chart tells, and start the ranks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    options, _ = parser.parse_known_args()  # --preset is always among the others
    if source := os.environ.get("RTD_RESUME_FROM"):
        raise SystemExit(f"RTD_RESUME_FROM={source}: this example does not start from another run")
    storage, _, name = os.environ["RTD_RUN_PATH"].rpartition("/")
    trainer = TorchTrainer(
        train,
        train_loop_config=vars(options),
        scaling_config=ScalingConfig(
            num_workers=int(os.environ["RTD_NODES"]) * int(os.environ["RTD_PROCESSES_PER_NODE"]),
            use_gpu=int(os.environ["RTD_GPUS_PER_NODE"]) > 0,
        ),
        run_config=RunConfig(
            storage_path=storage,  # a folder on the claim, or s3://…
            name=name,  # a run with this name that is there already goes on
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    print(f"finished: {trainer.fit().metrics}", flush=True)


if __name__ == "__main__":
    main()
