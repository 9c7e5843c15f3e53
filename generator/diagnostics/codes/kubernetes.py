"""Kubernetes and KubeRay (5xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import ALWAYS, Code, E, W

CODES = {
    "RTD501": Code(
        "a name is too long or malformed for Kubernetes, KubeRay or AWS",
        E,
        why="RayJob names hold 47 characters, of which the chart adds nine; node groups hold 63, CloudFormation "
        "stacks 128",
        fix="shorten the name by what the finding says; lower-case letters, digits and hyphens only",
    ),
    "RTD502": Code(
        "the Kubernetes version is not supported",
        E,
        why="the chart is validated for 1.34 to 1.37: it may use what an older one refuses, and a newer one may "
        "drop what it uses",
        fix="choose a version from 1.34 to 1.37",
    ),
    "RTD503": Code(
        "the KubeRay version is not supported",
        E,
        why="1.6.0 or later: an older operator refuses `preRunningDeadlineSeconds`",
        fix="set `platform.kuberay` to 1.6.0 or later, and upgrade the operator on the cluster first",
    ),
    "RTD504": Code(
        "two environments collide on one cluster",
        E,
        why="same name and namespace, or the same node group: each would take the other's away",
        fix="rename the group, or the environment",
    ),
    "RTD505": Code(
        "a cluster that eksctl makes needs this key",
        E,
        why="eksctl makes the cluster from `region` and `kubernetesVersion`; neither has a default that stays right",
        fix="add the key, or set `managed` to `existing` when others make the cluster",
    ),
    "RTD506": Code(
        "the chart has not been tried with this KubeRay",
        W,
        why="by `generator/catalog/kuberay.csv`; its operator may refuse or add what the tried ones do not",
        fix="take a version that has been tried, which the help names, or try it out and silence the finding",
    ),
    "RTD541": Code(
        "a key has no effect on an existing cluster",
        W,
        why="only the ClusterConfig of eksctl has it, and none is rendered for a cluster that is made elsewhere",
        fix="remove the key, or see to it where the cluster is made",
    ),
    "RTD542": Code(
        "environments of one cluster state different quotas",
        W,
        why="a quota belongs to the account and the region, so one of the numbers is out of date",
        fix="state it once, in a layer that these environments extend",
    ),
    "RTD543": Code(
        "the pods of one namespace may delete the checkpoints of another",
        W,
        why="pods may write below the prefix of their environment, and the other's runs lie there too",
        fix="give each namespace a prefix of its own",
    ),
    "RTD545": Code(
        "there is no such RayCluster to run on",
        E,
        why="mode `jobOnCluster` needs an environment of mode `cluster` on the same cluster, in the same namespace",
        fix="name an environment of mode `cluster` in the same namespace, on the same cluster",
    ),
    "RTD546": Code(
        "job.clusterName without mode jobOnCluster",
        E,
        why="it would have no effect",
        fix="set `mode` to `jobOnCluster`, or remove `job.clusterName`",
    ),
    "RTD547": Code(
        "the workers are not those of the cluster that runs the job",
        E,
        why="the job counts its ranks by its own `workers`, and runs on the nodes of the other environment",
        fix="write `workers` as the environment of the cluster has them",
    ),
    "RTD548": Code(
        "what the pods of a cluster have is not for a job on it to change",
        E,
        why="environment, Secrets and storage are mounted when the pods start",
        fix="move the key to the environment of the cluster, or remove it",
    ),
    "RTD549": Code(
        "the queue cannot take this job",
        E,
        why="the job would wait for ever, or pass the queue by",
        fix="follow the help: name a queue that takes this kind of job, and leave to the queue what it decides",
    ),
    "RTD551": Code(
        "reserved nodes stand idle under the autoscaler",
        W,
        why="it ends nodes that nothing uses, and a reservation or block is paid whether used or not",
        fix="keep work queued, or use a cluster without the autoscaler for reserved nodes",
    ),
    "RTD552": Code(
        "NVMe asked for on an instance type without it",
        E,
        why="there is nothing to put images and scratch files on",
        fix="set `scratch` to `volume`, or choose a type with local disks",
    ),
    "RTD553": Code(
        "the nodes' root volume is too small",
        E,
        why="it holds the system and the image of about 20 GB, and the kubelet evicts pods when 15 % are left",
        fix="raise `volumeSize`",
        silenceable=ALWAYS,
    ),
    "RTD554": Code(
        "an id, range, key ARN or tag is malformed",
        E,
        why="eksctl takes most of them unread, and AWS refuses them when half of the cluster is made",
        fix="write it as the AWS console shows it",
    ),
    "RTD555": Code(
        "the EFA device plugin is too old for an instance type",
        E,
        why="it miscounts the interfaces, so pods get none or too many",
        fix="raise `platform.efaDevicePlugin`",
    ),
}
