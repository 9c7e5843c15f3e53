"""What of a model's config.json is told before its weights are read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from training import config, weights
from training.options import ModelShape

pytestmark = pytest.mark.usefixtures("torch_installed")

SHAPE = {"vocab_size": 509, "hidden_size": 56, "intermediate_size": 150}


def shape_of(**changes: Any) -> ModelShape:
    return config.build("tiny", {**SHAPE, **changes}).model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A config.json as the installed transformers writes it."""
    from transformers import Qwen2Config

    settings = Qwen2Config(
        **SHAPE,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
    )
    settings.save_pretrained(tmp_path)
    return tmp_path


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_shape_that_differs_is_told_by_name(folder: Path) -> None:
    assert weights.shape_differences(folder, shape_of()) == []
    assert weights.shape_differences(folder, shape_of(tied=False)) == []
    other = replace(shape_of(), hidden_size=64, layers=3, rope_theta=10_000.0)
    assert weights.shape_differences(folder, other) == [
        "hidden_size: model 56, settings 64",
        "layers: model 2, settings 3",
        "rope_theta: model 1000000.0, settings 10000.0",
    ]
    change_config(folder, tie_word_embeddings=False)
    assert weights.shape_differences(folder, shape_of(tied=False)) == []
    assert weights.shape_differences(folder, shape_of()) == ["tied: model False, settings True"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"rope_parameters": None, "rope_theta": 1e6, "rope_scaling": None, "layer_types": None}, ""),
        ({"rope_parameters": None, "rope_theta": 5e5}, "rope_theta: model 500000.0, settings 1000000.0"),
        ({"rope_parameters": None}, "rope_theta: model 10000.0, settings 1000000.0"),
        ({"model_type": "llama"}, "model_type: model llama, and only qwen2 can be trained"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types: sliding_attention, which is not"),
        ({"layer_types": None, "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1}, "layer 1 on"),
        ({"layer_types": None, "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2}, ""),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4, "rope_theta": 1e6}}, "(rope_parameters): yarn"),
        ({"rope_parameters": None, "rope_theta": 1e6, "rope_scaling": {"type": "yarn"}}, "(rope_scaling): yarn"),
        ({"rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5}}, "partial_rotary_factor: 0.5, which"),
        ({"hidden_act": "gelu"}, "hidden_act: gelu, which is not built here"),
        ({"attention_dropout": 0.1}, "attention_dropout: 0.1"),
        ({"head_dim": 32}, "head_dim: 32"),
        ({"head_dim": 14}, ""),
        ({"quantization_config": {"bits": 4}}, "quantization_config, which is not built here"),
        ({"num_hidden_layers": None}, "layers: model None, settings 2"),
        ({"rope_parameters": 5}, "config.json has a field of a wrong type"),
    ],
)
def test_what_is_not_built_is_refused_by_its_field(folder: Path, change: dict[str, Any], said: str) -> None:
    change_config(folder, **change)
    found = weights.shape_differences(folder, shape_of())
    assert len(found) == bool(said), found
    assert said in "".join(found)


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_configuration_that_cannot_be_read_is_a_difference(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    (found,) = weights.shape_differences(tmp_path, shape_of())
    assert found.startswith("config.json cannot be read: ")
    assert str(tmp_path) in found
