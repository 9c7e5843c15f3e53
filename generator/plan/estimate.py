"""How fast the training may be, and what its tokens cost: an estimate that names its assumptions, not a measurement.

A step computes FLOPs per token × tokens ÷ (peak × assumed share), and sends bytes ÷ (rate × assumed share). The
estimate lets the network work behind the computation: max(compute, network). Without overlap a step takes their sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from generator.catalog.gpus import Assumption, Gpu, assumption, gpu_of
from generator.plan.network import Network
from generator.resolve import Group, Resolved
from training.config import Config
from training.sizes import flops_per_token, micro_batch, tokens_per_step


@dataclass(frozen=True, slots=True)
class Estimate:
    """One optimiser step of the whole training. Times in seconds, rates per second."""

    group: Group
    """The group whose GPUs take longest."""
    gpu: Gpu
    share: Assumption
    """Share of the GPU's peak that all work reaches, recomputed work included."""
    tokens: int
    steps: int
    ranks: int
    flops_per_token: float
    recomputed: float
    """Work with recomputed layers ÷ work without."""
    passes: int
    """Forward and backward passes of a rank per step."""
    launch_seconds: float
    """Least time of a step: starting the kernels of every layer of every pass; 0 when the layers are compiled."""
    arithmetic_seconds: float
    network_seconds: float
    assumptions: tuple[str, ...]

    @property
    def compute_seconds(self) -> float:
        return max(self.arithmetic_seconds, self.launch_seconds)

    @property
    def step_seconds(self) -> float:
        """With the network hidden behind the computation, or the other way round."""
        return max(self.compute_seconds, self.network_seconds)

    @property
    def step_seconds_in_turn(self) -> float:
        """Without any overlap."""
        return self.compute_seconds + self.network_seconds

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.step_seconds

    @property
    def mfu(self) -> float:
        """Share of the peak of all GPUs, without recomputed work, as the training's progress line has it."""
        return self.tokens_per_second * self.flops_per_token / (self.ranks * self.gpu.flops)

    def step(self, network_seconds: float | None) -> float | None:
        """The same step with another time on the wire."""
        return None if network_seconds is None else max(self.compute_seconds, network_seconds)


def estimate(config: Config, resolved: Resolved, network: Network) -> Estimate | None:
    """The estimate of one training; None where a GPU's peak is not known."""
    kinds = [(group, gpu) for group in resolved.groups if (gpu := gpu_of(group.type)) is not None]
    if len(kinds) != len(resolved.groups):
        return None
    item = "work_share_compiled" if config.parallel.compile else "work_share"
    group, gpu = min(kinds, key=lambda kind: kind[1].flops * assumption(item, kind[0].type.gpu_model).value)
    share = assumption(item, group.type.gpu_model)
    ranks, tokens = resolved.world_size, tokens_per_step(config.batch)
    flops = flops_per_token(config.model, config.batch.sequence_length)
    again = _recomputed(config, flops)
    passes = config.batch.global_batch_size // ranks // micro_batch(config.batch, ranks)
    launch = 0.0 if config.parallel.compile else assumption("launch_seconds_per_layer").value
    wire = network.seconds(network.chosen, network.transport)
    return Estimate(
        group=group,
        gpu=gpu,
        share=share,
        tokens=tokens,
        steps=config.schedule.steps,
        ranks=ranks,
        flops_per_token=flops,
        recomputed=again,
        passes=passes,
        launch_seconds=passes * config.model.layers * launch,
        arithmetic_seconds=tokens / ranks * flops * again / (gpu.flops * share.value),
        network_seconds=wire or 0.0,
        assumptions=_assumptions(config, group, gpu, share, network),
    )


def _recomputed(config: Config, flops: float) -> float:
    """A recomputed layer runs its forward pass, a third of its work, once more; the output layer is not a layer."""
    layers = config.model.layers
    again = {"none": 0, "alternate": (layers + 1) // 2, "full": layers}[config.parallel.activation_checkpointing]
    in_layers = 1 - 6 * config.model.vocab_size * config.model.hidden_size / flops
    return 1 + again / layers * in_layers / 3


def _assumptions(config: Config, group: Group, gpu: Gpu, share: Assumption, network: Network) -> tuple[str, ...]:
    sure = "" if gpu.confidence == "high" else f" (confidence of this figure: {gpu.confidence})"
    told = [
        f"{group.type.gpu_model} reaches {share.value:.0%} of its {gpu.flops / 1e12:g} TFLOP/s dense bf16{sure}: "
        f"{share.source}",
    ]
    if not config.parallel.compile:
        launch = assumption("launch_seconds_per_layer")
        told.append(
            f"a pass takes at least {1000 * launch.value:g} ms for each layer, to start its kernels: {launch.source}"
        )
    if network.transport != "none":
        one = assumption(f"{network.transport}_share")
        of = "the node's network" if network.transport == "efa" else "one network card"
        told += [
            f"{network.transport.upper()} reaches {one.value:.0%} of {of}: {one.source}",
            "the network works behind the computation, a step takes the longer of the two; "
            "without any overlap it takes their sum, given as the upper end",
        ]
    if group.gpus > 1:
        told.append("traffic between the GPUs of one node takes no time of its own")
    told.append("starting nodes and pods, loading data, checkpoints and validation are not counted")
    return tuple(told)
