"""Gradients of four ranks on two nodes equal those of one unsharded model, under every sharding mode."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.training.gradients_of_ranks import CASES
from tests.training.processes import Started, finish, outputs

pytestmark = pytest.mark.usefixtures("torch_installed")
NODES = tuple({"LOCAL_RANK": str(r % 2), "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": str(r // 2)} for r in range(4))
WORKER = (sys.executable, "-m", "tests.training.gradients_of_ranks")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, float]]]:
    """What the four ranks found, by case."""
    folder = tmp_path_factory.mktemp("gradients")
    group = Started()
    try:
        ranks = group.ranks(folder, (str(folder / "found.json"),), NODES, command=WORKER, CUDA_VISIBLE_DEVICES="")
        assert finish(ranks, 300) == [0] * 4, outputs(ranks)
        yield json.loads((folder / "found.json").read_text(encoding="utf-8"))
    finally:
        group.end()


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_those_of_an_unsharded_model(compared: dict[str, dict[str, float]], case: str) -> None:
    found = compared[case]
    assert found["compared"] >= 2 * 12  # every parameter of two layers has one
    assert found["largest"] > 1e-6  # none is zero everywhere
    assert found["error"] < 1e-6  # sums of fp32 numbers in another order
