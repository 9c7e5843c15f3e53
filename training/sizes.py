"""How large a training is: parameters, memory, bytes on the network, work. Standard library only.

The plan of the generator and the training loop share these formulae. Byte counts are exact where they count tensors and
estimates where they count what autograd keeps; each function says which.
"""

from __future__ import annotations

from dataclasses import dataclass

from training.config import ModelShape, RunOptions

# fp32 shard + fp32 gradient + two fp32 moments of AdamW.
STATE_BYTES_PER_PARAMETER = 16
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


def tokens_per_step(run: RunOptions) -> int:
    """Tokens of one optimiser step over all ranks."""
    return run.global_batch_size * run.sequence_length


def micro_batch(run: RunOptions, world_size: int) -> int:
    """Sequences in one forward pass of one rank: the largest divisor of its share that `micro_batch_size` allows."""
    share = run.global_batch_size // world_size
    return max(n for n in range(1, min(run.micro_batch_size, share) + 1) if share % n == 0)


def uses_hsdp(run: RunOptions, nodes: int, processes_per_node: int) -> bool:
    """Whether the model is sharded inside each node and replicated across nodes."""
    if run.sharding == "auto":
        return nodes > 1 and processes_per_node > 1
    return run.sharding == "hsdp"


def checkpoint_bytes(shape: ModelShape) -> int:
    """One checkpoint on storage: fp32 parameters and two fp32 moments. Exact but for a few KB of metadata."""
    return 12 * parameter_count(shape)


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


def gpu_memory(shape: ModelShape, run: RunOptions, *, nodes: int, processes_per_node: int) -> GpuMemory:
    """Memory plan of one GPU (bf16 computation on fp32 shards)."""
    world = nodes * processes_per_node
    shards = processes_per_node if uses_hsdp(run, nodes, processes_per_node) else world
    tail = shape.vocab_size * shape.hidden_size * (1 if shape.tied else 2)
    reduced = 4 if run.reduce_dtype == "float32" else 2
    tokens = micro_batch(run, world) * run.sequence_length
    kept = KEPT_PER_INTERMEDIATE * shape.intermediate_size + KEPT_PER_HIDDEN * shape.hidden_size
    recomputed = {"none": 0, "alternate": (shape.layers + 1) // 2, "full": shape.layers}[run.activation_checkpointing]
    per_token = (shape.layers - recomputed) * kept + recomputed * 2 * shape.hidden_size + (kept if recomputed else 0)
    rows = min(run.loss_chunk, tokens)
    return GpuMemory(
        state=-(-parameter_count(shape) * STATE_BYTES_PER_PARAMETER // shards),
        # Three layers (current, prefetched, being freed) with the gradient of one, and the tail with its gradient.
        gathered=layer_parameters(shape) * (3 * 2 + 2 + reduced) + tail * (2 + reduced),
        activations=int(tokens * per_token),
        loss=12 * shape.vocab_size * rows + 2 * tail,
        runtime=RUNTIME_BYTES,
    )


def nic_bytes_per_step(shape: ModelShape, run: RunOptions, *, nodes: int, processes_per_node: int) -> float:
    """Bytes that each node sends over its network per optimiser step, in one direction; 0 on a single node.

    Full sharding gathers the bf16 weights twice (forward, backward) and reduces the gradients once, per micro-batch, in
    a ring over all n ranks: (n-1)/n of each buffer crosses every node's edge. HSDP only all-reduces each node's
    gradients over the nodes, once per step: 2 (N-1)/N.
    """
    if nodes == 1:
        return 0.0
    parameters = parameter_count(shape)
    gradients = parameters * (4 if run.reduce_dtype == "float32" else 2)
    if uses_hsdp(run, nodes, processes_per_node):
        return 2.0 * (nodes - 1) / nodes * gradients
    world = nodes * processes_per_node
    passes = run.global_batch_size // world // micro_batch(run, world)
    return passes * (world - 1) / world * (2 * 2 * parameters + gradients)
