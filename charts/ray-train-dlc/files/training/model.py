"""Qwen2.5 under FSDP2: built without memory, sharded, then given the same random weights for every number of ranks."""

from __future__ import annotations

import types
from typing import Any

from training.config import Config
from training.data import mix
from training.options import ModelShape, Optimizer, Parallel

INIT_STD = 0.02  # Qwen2's own `initializer_range`


def meta_model(shape: ModelShape, sequence_length: int, dtype: str = "float32") -> Any:
    """The Qwen2 architecture of transformers on the meta device: shapes and names, no memory."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    settings = Qwen2Config(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=max(sequence_length, 32_768),
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        rms_norm_eps=shape.norm_eps,
        tie_word_embeddings=shape.tied,
        use_cache=False,
    )
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(settings, dtype=getattr(torch, dtype), attn_implementation="sdpa")


def build(config: Config, mesh: Any, *, mode: str, processes_per_node: int, cuda: bool) -> Any:
    """Sharded model in memory without values; compute in bf16 on CUDA, and in the weights' own format on the CPU.

    The result has a method `token_loss(inputs, labels)` (see `_token_loss`).

    Args:
        mode: as `sizes.sharding_mode` gives it.
    """
    import torch
    from torch.distributed.fsdp import register_fsdp_forward_method

    dtype = "bfloat16" if config.parallel.precision == "bfloat16" else "float32"
    model = meta_model(config.model, config.batch.sequence_length, dtype)
    model.token_loss = types.MethodType(_token_loss, model)
    model.loss_chunk = config.parallel.loss_chunk
    shard(model, mesh, config.parallel, mode=mode, processes_per_node=processes_per_node, cuda=cuda)
    # The output layer's weight is a shard outside of a forward pass: the loss must be one.
    register_fsdp_forward_method(model, "token_loss")
    model.to_empty(device=torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu"))
    rebuild_rotary(model)
    check_tie(model, config.model)
    return model


def shard(model: Any, mesh: Any, parallel: Parallel, *, mode: str, processes_per_node: int, cuda: bool) -> None:
    """Apply, in this order, activation checkpointing, compilation and FSDP2.

    Each decoder layer is one unit. Embedding, last norm and output layer stay together in the root unit: tied weights
    must not be split over two, and the root is needed at both ends of a pass, so it is not resharded in between.
    With `unit_parameters` the units are those of FSDP1's size-based policy instead.
    """
    import torch
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy()
    if cuda and parallel.precision == "mixed":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, parallel.reduce_dtype))
    reshard = _reshard(mode, processes_per_node, mesh.size())
    if parallel.unit_parameters:
        for unit in units_by_size(model, parallel.unit_parameters):
            fully_shard(unit, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    else:
        every = {"none": 0, "alternate": 2, "full": 1}[parallel.activation_checkpointing]
        layers = model.model.layers
        for i, layer in enumerate(layers):
            unit = layer
            if every and i % every == 0:
                unit = layers[i] = checkpoint_wrapper(layer)
            if parallel.compile:
                unit.compile()
            fully_shard(unit, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    model.gathers_once = mode == "zero2"


def _reshard(mode: str, processes_per_node: int, world_size: int) -> bool | int:
    """What FSDP2 does with a unit's weights after its forward pass: keep, shard again, or shard inside each node."""
    if mode == "hpz" and processes_per_node == 1:
        return False
    if mode == "hpz" and processes_per_node < world_size:
        return processes_per_node
    return mode != "zero2"


def units_by_size(model: Any, least: int) -> list[Any]:
    """Modules that FSDP1's `size_based_auto_wrap_policy(min_num_params=least)` would wrap, inner ones first.

    Source of the rule: torch/distributed/fsdp/wrap.py, `_recursive_wrap` and `size_based_auto_wrap_policy` (2.13). A
    module counts with the parameters that no module inside it has taken; lists of modules pass theirs on.
    """
    from torch import nn

    found: list[Any] = []

    def walk(module: Any) -> int:
        """Parameters of `module` that went into units."""
        own: int = sum(p.numel() for p in module.parameters())
        if own < least:
            return 0
        inside = sum(walk(child) for child in module.children())
        if own - inside >= least and not isinstance(module, nn.ModuleList | nn.ModuleDict):
            found.append(module)
            return own
        return inside

    for child in model.children():
        walk(child)
    return found


def clean_name(name: str) -> str:
    """A parameter's name without the parts that wrappers add; the one in checkpoints."""
    return name.replace("_checkpoint_wrapped_module.", "").replace("_orig_mod.", "")


def initialise(model: Any, seed: int) -> None:
    """Fill the parameters, one at a time, with values that depend on the seed and the parameter's name alone.

    Every rank draws the whole tensor on its CPU and keeps its shard: no rank ever holds more than one whole parameter,
    nothing is sent, and one rank or eight start from equal weights.
    """
    import torch
    from torch.distributed.tensor import distribute_tensor

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                key = mix(seed, 4, *clean_name(name).encode())
                whole = torch.empty(parameter.shape, dtype=torch.float32)
                whole.normal_(0.0, INIT_STD, generator=torch.Generator().manual_seed(key))
            else:
                whole = torch.full(parameter.shape, 0.0 if name.endswith("bias") else 1.0)
            mesh = parameter.device_mesh
            whole = whole.to(mesh.device_type)
            # src_data_rank=None: each rank cuts its part out of its own copy instead of receiving rank 0's.
            parameter.copy_(distribute_tensor(whole, mesh, parameter.placements, src_data_rank=None))


def rebuild_rotary(model: Any) -> None:
    """Fill the rotary frequencies: no parameter and in no state dict, so memory without a value after `to_empty`."""
    rotary = model.model.rotary_emb
    fresh = type(rotary)(config=model.config)
    for name, buffer in rotary.named_buffers():
        buffer.copy_(getattr(fresh, name))


def check_tie(model: Any, shape: ModelShape) -> None:
    """Raise when the output layer and the embedding should be one tensor and are not."""
    if shape.tied and model.lm_head.weight is not model.model.embed_tokens.weight:
        raise RuntimeError("lm_head.weight is no longer embed_tokens.weight: the run would train two copies")


def _token_loss(self: Any, inputs: Any, labels: Any) -> Any:
    """Sum of the cross entropy over all positions, in nats, as an fp32 scalar with gradient.

    Logits are made for `loss_chunk` rows at a time and made again in the backward pass: all of them at once would take
    12 bytes × vocabulary × tokens.

    Args:
        inputs, labels: int64, shape (sequences, sequence_length).
    """
    import torch
    import torch.nn.functional as F  # noqa: N812 - the name that every PyTorch user knows
    from torch.utils.checkpoint import checkpoint

    def chunk_loss(hidden: Any, targets: Any) -> Any:
        return F.cross_entropy(self.lm_head(hidden).float(), targets, reduction="sum")

    # Full rows without padding: no mask, so that attention takes its causal fast path.
    hidden = self.model(input_ids=inputs, use_cache=False).last_hidden_state.flatten(0, 1)
    targets = labels.flatten()
    total = torch.zeros((), dtype=torch.float32, device=hidden.device)
    for start in range(0, hidden.shape[0], self.loss_chunk):
        rows = slice(start, start + self.loss_chunk)
        total = total + checkpoint(chunk_loss, hidden[rows], targets[rows], use_reentrant=False)
    return total


def optimizer(model: Any, options: Optimizer) -> Any:
    """Fused AdamW on this rank's shards; weight decay on matrices only."""
    import torch

    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": options.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(options.beta1, options.beta2), fused=True)
