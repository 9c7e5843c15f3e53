"""How large a training is: parameters, memory, bytes on the network, work. Standard library only.

The plan of the generator and the training loop share these formulae. Byte counts are exact where they count tensors and
estimates where they count what autograd keeps; each function says which.
"""

from __future__ import annotations

from dataclasses import dataclass

from training.config import Config
from training.options import Batch, ModelShape, Parallel

# Weight, gradient and AdamW's two moments: in fp32, or all of them in bf16.
STATE_BYTES_PER_PARAMETER = {"mixed": 16, "bfloat16": 8}
# What autograd keeps of one decoder layer per token, in bytes of bf16: 8 i + 20.7 h, measured with saved-tensor hooks
# on Qwen2.5-1.5B (103,480 B); a recomputed layer keeps its input alone, 2 h.
KEPT_PER_INTERMEDIATE = 8.0
KEPT_PER_HIDDEN = 20.7
# CUDA context, NCCL buffers and allocator slack on one GPU; an estimate.
RUNTIME_BYTES = 1_500_000_000


def layer_parameters(shape: ModelShape) -> int:
    """Parameters of one decoder layer: attention with q, k, v biases, gated feed-forward, two norms."""
    h, i = shape.hidden_size, shape.intermediate_size
    kv = shape.kv_heads * (h // shape.heads)
    attention = (h * h + h) + 2 * (h * kv + kv) + h * h
    return attention + 3 * h * i + 2 * h


def parameter_count(shape: ModelShape) -> int:
    """Trained parameters of the whole model; a tied output layer counts once. Exact."""
    embedding = shape.vocab_size * shape.hidden_size
    return embedding * (1 if shape.tied else 2) + shape.layers * layer_parameters(shape) + shape.hidden_size


def flops_per_token(shape: ModelShape, sequence_length: int) -> float:
    """Floating-point operations of forward and backward per token, causal attention counted as half: 6 N + 6 L h T.

    N are the parameters that multiply: the output layer counts, the lookup in the embedding does not. Recomputed
    activations do not count either, so dividing by the peak rate gives MFU.
    """
    multiplying = shape.layers * layer_parameters(shape) + shape.vocab_size * shape.hidden_size + shape.hidden_size
    return 6.0 * multiplying + 6.0 * shape.layers * shape.hidden_size * sequence_length


def tokens_per_step(batch: Batch) -> int:
    """Tokens of one optimiser step over all ranks."""
    return batch.global_batch_size * batch.sequence_length


def micro_batch(batch: Batch, world_size: int) -> int:
    """Sequences in one forward pass of one rank: the largest divisor of its share that `micro_batch_size` allows."""
    share = batch.global_batch_size // world_size
    return max(n for n in range(1, min(batch.micro_batch_size, share) + 1) if share % n == 0)


def sharding_mode(parallel: Parallel, nodes: int, processes_per_node: int) -> str:
    """`full`, `zero2`, `hpz` or `hsdp`: what `auto` comes to on this layout, else what was chosen."""
    if parallel.sharding != "auto":
        return parallel.sharding
    return "hsdp" if nodes > 1 and processes_per_node > 1 else "full"


def checkpoint_bytes(config: Config) -> int:
    """One checkpoint on storage: parameters and two moments, without gradients. Exact but for a few KB of metadata."""
    return STATE_BYTES_PER_PARAMETER[config.parallel.precision] * 3 // 4 * parameter_count(config.model)


def kept_gathered(config: Config) -> int:
    """Parameters that stay gathered from the forward to the backward pass in every mode: those of FSDP's root unit.

    With one unit for each layer the root holds embedding, last norm and output layer; when units are cut by size it
    holds none.
    """
    shape = config.model
    if config.parallel.unit_parameters:
        return 0
    return shape.vocab_size * shape.hidden_size * (1 if shape.tied else 2) + shape.hidden_size


@dataclass(frozen=True)
class GpuMemory:
    """Peak memory of one GPU in bytes, by what holds it. `state` is exact, the rest is estimated."""

    state: int
    """Sharded parameters, gradients and optimiser states."""
    gathered: int
    """Parameters and gradients of the units in flight, unsharded, in bf16."""
    activations: int
    """What autograd keeps of the layers for one micro-batch, one recomputed layer included."""
    loss: int
    """One chunk of logits and the gradient of the output layer."""
    runtime: int
    """CUDA context, NCCL buffers, allocator slack."""

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return self.state + self.gathered + self.activations + self.loss + self.runtime


def gpu_memory(config: Config, *, nodes: int, processes_per_node: int) -> GpuMemory:
    """Memory plan of one GPU (computation in bf16)."""
    shape, batch, parallel = config.model, config.batch, config.parallel
    world = nodes * processes_per_node
    mode = sharding_mode(parallel, nodes, processes_per_node)
    parameters = parameter_count(shape)
    shards = processes_per_node if mode == "hsdp" else world
    tail = shape.vocab_size * shape.hidden_size * (1 if shape.tied else 2)
    reduced = _reduced_bytes(parallel, cuda=True)
    tokens = micro_batch(batch, world) * batch.sequence_length
    kept = KEPT_PER_INTERMEDIATE * shape.intermediate_size + KEPT_PER_HIDDEN * shape.hidden_size
    recomputed = {"none": 0, "alternate": (shape.layers + 1) // 2, "full": shape.layers}
    again = recomputed[parallel.activation_checkpointing]
    per_token = (shape.layers - again) * kept + again * 2 * shape.hidden_size + (kept if again else 0)
    rows = min(parallel.loss_chunk, tokens)
    # Three layers (current, prefetched, being freed) with the gradient of one, and the tail with its gradient.
    gathered = layer_parameters(shape) * (3 * 2 + 2 + reduced) + tail * (2 + reduced)
    # bf16 copies that last from the forward to the backward pass: all weights, or this node's share of them.
    gathered += {"zero2": 2 * (parameters - tail), "hpz": 2 * parameters // processes_per_node}.get(mode, 0)
    return GpuMemory(
        state=-(-parameters * STATE_BYTES_PER_PARAMETER[parallel.precision] // shards),
        gathered=gathered,
        activations=int(tokens * per_token),
        loss=12 * shape.vocab_size * rows + 2 * tail,
        runtime=RUNTIME_BYTES,
    )


def _reduced_bytes(parallel: Parallel, *, cuda: bool) -> int:
    """Bytes of one gradient on its way between ranks."""
    if parallel.precision == "bfloat16":
        return 2
    return 2 if cuda and parallel.reduce_dtype == "bfloat16" else 4


def nic_bytes_per_step(config: Config, *, nodes: int, processes_per_node: int, cuda: bool = True) -> float:
    """Bytes that each node sends over its network per optimiser step, in one direction; 0 on a single node.

    S_w are the bytes of all gathered weights, S_r those of the root unit's, which stay gathered between forward and
    backward pass (`kept_gathered`), S_g those of the gradients. A ring over all n ranks carries (n-1)/n of each buffer
    over every node's edge. For each micro-batch `full` gathers in the forward and in the backward pass and reduces:
    (n-1)/n (2 S_w - S_r + S_g); `hpz` gathers inside the node in the backward pass: (n-1)/n (S_w + S_g). `zero2`
    gathers once a step: (n-1)/n (S_w + passes S_g). `hsdp` only all-reduces each node's gradients over the N nodes,
    once a step: 2 (N-1)/N S_g.

    Args:
        cuda: weights travel in bf16, over NCCL. On the CPU they travel as they are kept, over gloo, whose
            reduce-scatter is an all-reduce of which each rank keeps its part: S_g counts twice over all ranks.
    """
    if nodes == 1:
        return 0.0
    parallel, parameters = config.parallel, parameter_count(config.model)
    gradients = parameters * _reduced_bytes(parallel, cuda=cuda)
    each = 2 if cuda or parallel.precision == "bfloat16" else 4
    weights, root = parameters * each, kept_gathered(config) * each
    mode = sharding_mode(parallel, nodes, processes_per_node)
    if mode == "hsdp":
        return 2.0 * (nodes - 1) / nodes * gradients
    world = nodes * processes_per_node
    passes = config.batch.global_batch_size // world // micro_batch(config.batch, world)
    scattered = gradients if cuda else 2 * gradients
    carried = {
        "full": passes * (2 * weights - root + scattered),
        "hpz": passes * (weights + scattered),
        "zero2": weights + passes * scattered,
    }
    return (world - 1) / world * carried[mode]
