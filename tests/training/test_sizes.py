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
    model = meta_model(built.model, built.batch.sequence_length)
    assert sum(p.numel() for p in model.parameters()) == sizes.parameter_count(built.model)


def test_work_and_network_bytes_of_the_published_example() -> None:
    """2 × 4 L4 at 2048 tokens: 9.79 GFLOP per token; 2 × 1/2 × 3.09 GB, and 7/8 of each buffer that a ring carries."""
    assert sizes.flops_per_token(BASE.model, 2048) == pytest.approx(9.79e9, rel=1e-3)
    layout = {"nodes": 2, "processes_per_node": 4}
    weights = 2 * sizes.parameter_count(BASE.model)
    root = 2 * (151_936 * 1536 + 1536)  # stays gathered from the forward to the backward pass
    expected = {
        "auto": weights,
        "hsdp": weights,
        "full": 7 / 8 * (3 * weights - root),
        "hpz": 7 / 8 * 2 * weights,
        "zero2": 7 / 8 * 2 * weights,
    }
    for mode, bytes_ in expected.items():
        built = config.build("qwen2.5-1.5b", {"sharding": mode})
        assert sizes.nic_bytes_per_step(built, **layout) == pytest.approx(bytes_)
        assert sizes.nic_bytes_per_step(built, nodes=1, processes_per_node=4) == 0
    # Four passes: full shards gather and reduce in each, ZeRO-2 gathers once, HSDP crosses the nodes once.
    more = {"global_batch_size": 128}
    grown = {
        mode: sizes.nic_bytes_per_step(config.build("qwen2.5-1.5b", {"sharding": mode, **more}), **layout)
        / expected[mode]
        for mode in expected
    }
    assert grown == pytest.approx({"auto": 1, "hsdp": 1, "full": 4, "hpz": 4, "zero2": 2.5})
    wide = config.build("qwen2.5-1.5b", {"sharding": "hsdp", "reduce_dtype": "float32"})
    assert sizes.nic_bytes_per_step(wide, **layout) == 2 * weights
    sample = config.build("aws-sample")
    assert sizes.nic_bytes_per_step(sample, **layout) == pytest.approx(7 / 8 * 3 * 2 * 1_777_088_000)
    # gloo: fp32 on the way, and a reduce-scatter that carries as much as an all-reduce.
    on_cpu = {
        mode: sizes.nic_bytes_per_step(config.build("qwen2.5-1.5b", {"sharding": mode}), **layout, cuda=False)
        for mode in ("full", "hpz", "zero2", "hsdp")
    }
    assert on_cpu == pytest.approx(
        {
            "full": 7 / 8 * 2 * (4 * weights - root),
            "hpz": 7 / 8 * 2 * 3 * weights,
            "zero2": 7 / 8 * 2 * 3 * weights,
            "hsdp": 2 * weights,
        }
    )


def test_memory_plan_counts_what_each_mode_keeps() -> None:
    layout = {"nodes": 2, "processes_per_node": 4}
    parameters = 1_543_714_304
    plan = sizes.gpu_memory(BASE, **layout)
    assert plan.state == parameters * 16 // 4
    assert plan.total == sum((plan.state, plan.gathered, plan.activations, plan.loss, plan.runtime))
    assert plan.total < 22e9  # fits an L4
    more = config.build("qwen2.5-1.5b", {"activation_checkpointing": "none"})
    assert sizes.gpu_memory(more, **layout).total > 30e9
    plans = {
        mode: sizes.gpu_memory(config.build("qwen2.5-1.5b", {"sharding": mode}), **layout)
        for mode in ("full", "zero2", "hpz")
    }
    assert {p.state for p in plans.values()} == {parameters * 16 // 8}
    assert plans["zero2"].gathered - plans["full"].gathered == 2 * (parameters - 151_936 * 1536)
    assert plans["hpz"].gathered - plans["full"].gathered == 2 * parameters // 4
    assert sizes.gpu_memory(config.build("aws-sample"), **layout).state == 1_777_088_000 * 8 // 8


def test_checkpoint_bytes_follow_the_number_format() -> None:
    assert sizes.checkpoint_bytes(BASE) == 12 * 1_543_714_304
    assert sizes.checkpoint_bytes(config.build("aws-sample")) == 6 * 1_777_088_000


def test_auto_shards_inside_the_nodes_where_there_are_several() -> None:
    parallel = BASE.parallel
    found = [sizes.sharding_mode(parallel, nodes, each) for nodes, each in ((1, 4), (2, 1), (2, 4))]
    assert found == ["full", "full", "hsdp"]


@pytest.mark.usefixtures("torch_installed")
def test_units_by_size_are_those_of_fsdp1() -> None:
    """What FSDP1's own policy wraps in the shape of the published example."""
    from functools import partial

    from torch.distributed.fsdp.wrap import _recursive_wrap, size_based_auto_wrap_policy

    from training.model import meta_model, units_by_size

    shape = config.build("aws-sample").model
    model = meta_model(shape, 128)
    found = units_by_size(model, 10_000_000)
    names = {id(module): name for name, module in model.named_modules()}
    ours = [names[id(module)] for module in found]
    assert len(ours) == 2 + 3 * 28 + 1  # embedding, output layer, three projections a layer, the rest of the model
    wrapped: list[str] = []

    def note(module: object, **_: object) -> object:
        wrapped.append(names[id(module)])
        return module

    _recursive_wrap(
        model,
        auto_wrap_policy=partial(size_based_auto_wrap_policy, min_num_params=10_000_000),
        wrapper_cls=note,
        ignored_modules=set(),
        ignored_params=set(),
        only_wrap_children=True,
    )
    assert sorted(ours) == sorted(wrapped)


def test_micro_batch_divides_each_ranks_share() -> None:
    batch = config.build("tiny", {"global_batch_size": 24, "micro_batch_size": 8}).batch
    assert [sizes.micro_batch(batch, world) for world in (1, 2, 3, 4, 8, 24)] == [8, 6, 8, 6, 3, 1]
