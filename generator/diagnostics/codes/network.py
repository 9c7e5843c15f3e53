"""Network (3xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import ALWAYS, Code, E, W

CODES = {
    "RTD301": Code(
        "EFA asked for on an instance type without it",
        E,
        why="the pod would ask for an interface that no node has",
        fix="take a type with EFA, or set `efa` to `disabled` for a training that may run over TCP",
    ),
    "RTD302": Code(
        "a group with EFA needs exactly one availability zone",
        E,
        why="eksctl otherwise spreads the group over all subnets, and EFA does not cross zones",
        fix="name one `availabilityZone`, the same for all groups that use EFA",
        silenceable=ALWAYS,
    ),
    "RTD303": Code(
        "the availability zone is not in the cluster's region",
        E,
        why="by the region's zones in the catalogue: eksctl would refuse the cluster or the node group",
        fix="take a zone of the cluster's region, or correct the region; silence it for a zone that AWS opened since",
        silenceable=ALWAYS,
    ),
    "RTD304": Code(
        "the group's zone is not among the cluster's zones",
        E,
        why="the group's subnet would not exist, and eksctl refuses the node group",
        fix="take a zone of the cluster, or add the zone to `availabilityZones` before the cluster is made",
    ),
    "RTD305": Code(
        "an EKS cluster needs at least two availability zones",
        E,
        why="the control plane stands in two zones: EKS refuses a cluster with one",
        fix="name a second zone of the region; the GPU nodes still use only theirs",
    ),
    "RTD306": Code(
        "several nodes without EFA talk over TCP",
        W,
        why="it works, but slowly; say so on purpose with a type without EFA or `efa: disabled`",
        fix="take a type with EFA and `efa: required`, train on one node, or silence it where the speed of TCP is "
        "enough",
    ),
    "RTD307": Code(
        "the worker groups are on different networks",
        E,
        why="all ranks talk over one network, and each checks the same interface count and protocol",
        fix="give all groups types with the same number of EFA interfaces, or set `efa` to `disabled` in all of them",
    ),
    "RTD308": Code(
        "the placement group does not fit how the nodes are bought",
        W,
        why="a reservation made in a placement group gives its instances to no other; an error where the key "
        "could have no effect",
        fix="name the group that the EC2 console shows with the reservation, say `none` where there is none, or "
        "remove the key",
    ),
    "RTD309": Code(
        "EFA of P4d and P4de reaches no other family",
        E,
        why="the ranks would wait for each other until NCCL gives up",
        fix="take one family for all groups, or one without P4d and P4de",
    ),
    "RTD340": Code(
        "an environment variable that is not yours to set",
        E,
        why="it is the contract between chart and training, or the operator of KubeRay sets it",
        fix="remove the variable; set the key of the environment that decides it",
    ),
    "RTD341": Code(
        "an environment variable would defeat the check of the network",
        E,
        why="NCCL could run over TCP in silence, or the training could not prove that it does not",
        fix="remove the variable; `efa: disabled` is the way to run over TCP",
    ),
    "RTD342": Code(
        "an environment variable costs speed, or does nothing",
        W,
        why="manifests carry it on from one to the next; `generator/catalog/variables.csv` has the reasons",
        fix="remove the variable, or silence it with what you measured",
    ),
    "RTD350": Code(
        "the subnet has too few addresses for the nodes",
        E,
        why="each EFA interface of a node takes an address of its own; the arithmetic is in a note",
        fix="give the VPC a larger range (`network.cidr`), or take fewer nodes",
    ),
    "RTD351": Code(
        "the keys of `network` contradict each other",
        E,
        why="eksctl refuses them, or makes nodes that never join; a warning where it may be meant",
        fix="follow the help: a VPC with its subnets or a range, and an endpoint that the nodes can reach",
    ),
}
