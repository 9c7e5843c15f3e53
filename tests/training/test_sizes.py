"""The formulae that the plan and the loop share, against the real model and published numbers."""

from __future__ import annotations

import pytest

from training import config, sizes

BASE = config.build("qwen2.5-1.5b")


def shaped(**changes: object) -> config.ModelShape:
    return config.build("qwen2.5-1.5b", changes).model


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({}, 1_543_714_304),
        (
            {"hidden_size": 896, "intermediate_size": 4864, "layers": 24, "heads": 14},
            494_032_768,
        ),
        (
            {
                "vocab_size": 152_064,
                "hidden_size": 3584,
                "intermediate_size": 18_944,
                "heads": 28,
                "kv_heads": 4,
                "tied": False,
            },
            7_615_616_512,
        ),
    ],
    ids=["1.5B", "0.5B", "7B"],
)
def test_parameter_count_of_published_models(shape: dict[str, object], expected: int) -> None:
    assert sizes.parameter_count(shaped(**shape)) == expected


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize("preset", config.preset_names())
def test_parameter_count_is_that_of_the_real_architecture(preset: str) -> None:
    from training.model import meta_model

    built = config.build(preset)
    model = meta_model(built.model, built.run.sequence_length)
    assert sum(p.numel() for p in model.parameters()) == sizes.parameter_count(built.model)


def test_work_and_network_bytes_of_the_published_example() -> None:
    """Numbers of the project's own report for 2 × 4 L4 at 2048 tokens: 9.79 GFLOP per token, 3.09 and 8.10 GB."""
    assert sizes.flops_per_token(BASE.model, 2048) == pytest.approx(9.79e9, rel=1e-3)
    hsdp = sizes.nic_bytes_per_step(BASE.model, BASE.run, nodes=2, processes_per_node=4)
    assert hsdp == pytest.approx(3.09e9, rel=1e-2)
    full = config.build("qwen2.5-1.5b", {"sharding": "full"}).run
    assert sizes.nic_bytes_per_step(BASE.model, full, nodes=2, processes_per_node=4) == pytest.approx(8.10e9, rel=1e-2)
    assert sizes.nic_bytes_per_step(BASE.model, full, nodes=1, processes_per_node=4) == 0


def test_memory_plan_counts_the_shard_of_one_node_under_hsdp() -> None:
    plan = sizes.gpu_memory(BASE.model, BASE.run, nodes=2, processes_per_node=4)
    assert plan.state == 1_543_714_304 * 16 // 4
    assert plan.total == sum((plan.state, plan.gathered, plan.activations, plan.loss, plan.runtime))
    assert plan.total < 22e9  # fits an L4
    more = config.build("qwen2.5-1.5b", {"activation_checkpointing": "none"}).run
    assert sizes.gpu_memory(BASE.model, more, nodes=2, processes_per_node=4).total > 30e9


def test_micro_batch_divides_each_ranks_share() -> None:
    run = config.build("tiny", {"global_batch_size": 24, "micro_batch_size": 8}).run
    assert [sizes.micro_batch(run, world) for world in (1, 2, 3, 4, 8, 24)] == [8, 6, 8, 6, 3, 1]
