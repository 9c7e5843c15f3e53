"""A real multi-node Kubernetes with the KubeRay operator on one Linux machine, without a cloud, a registry or Docker.

    from tests.cluster.bench.bench import Bench

    with Bench("demo") as bench:                       # or: python -m tests.cluster.bench up
        bench.helm("install", …)
        bench.kubectl("get", "rayjobs", namespace="ray-train")

The bench is one process tree in a network, mount and process-id namespace of its own: `machine.py` is its first process
and runs the control plane, each node (`node.py`) has such namespaces of its own inside it. When the first process ends,
the kernel ends everything else. Outside of it there are only the working folder and the nodes' control groups.
`docs/test-bench.md` has the picture.
"""
