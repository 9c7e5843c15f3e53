"""Whether a Ray cluster is large enough, and how its CPUs are shared out."""

from __future__ import annotations

import pytest

from training.cluster import rank_resources

HEAD = {"CPU": 0.0, "GPU": 0.0}


def node(cpus: float, gpus: float = 0) -> dict[str, float]:
    return {"CPU": cpus, "GPU": gpus, "memory": 1e9}


def test_gpu_nodes_give_each_rank_its_share_of_cpus() -> None:
    found = rank_resources([HEAD, node(46, 4), node(46, 4)], 2, 4, 8, cuda=True)
    assert found == {"CPU": 11, "GPU": 1}


@pytest.mark.parametrize(
    ("cpus", "per_node", "share"), [(4, 2, 2), (3, 2, 1.5), (1, 2, 0.5), (2, 2, 1), (7, 3, 2), (8, 3, 2.6666)]
)
def test_no_more_ranks_fit_on_a_cpu_node_than_belong_there(cpus: float, per_node: int, share: float) -> None:
    found = rank_resources([HEAD, node(cpus), node(cpus)], 2, per_node, 2 * per_node, cuda=False)
    assert found == {"CPU": share}
    assert isinstance(found, dict)
    assert int(cpus // found["CPU"]) == per_node


def test_what_is_missing_is_said_with_what_there_is() -> None:
    few = rank_resources([HEAD, node(46, 4)], 2, 4, 8, cuda=True)
    assert few == "needed 2 nodes with 4 GPUs, found 1 (nodes: 0 CPU 0 GPU, 46 CPU 4 GPU)"
    wrong = rank_resources([HEAD, node(46, 3), node(46, 4)], 2, 4, 8, cuda=True)
    assert isinstance(wrong, str)
    assert "found 1" in wrong
    assert rank_resources([], None, None, 2, cuda=False) == "needed 2 CPUs in all, found 0 (nodes: none)"
