"""Reads what `helm template` prints and writes what the operator will create of it, for the API server to judge."""

import json
import sys

import yaml

pods = 0
for manifest in yaml.safe_load_all(sys.stdin):
    if not manifest or manifest["kind"] not in {"RayJob", "RayCluster"}:
        continue
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    cluster = spec if manifest["kind"] == "RayCluster" else spec.get("rayClusterSpec", {})
    head = cluster.get("headGroupSpec", {})
    templates = {f"{name}-{group['groupName']}": group["template"] for group in cluster.get("workerGroupSpecs", [])}
    templates |= {f"{name}-head": head["template"]} if head else {}
    templates |= {f"{name}-submitter": spec["submitterPodTemplate"]} if "submitterPodTemplate" in spec else {}
    pods += len(templates)
    for called, template in templates.items():
        print(
            "---",
            json.dumps({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": called}, "template": template}),
            sep="\n",
        )
    if head.get("serviceType") or head.get("headService"):
        service = {"ports": [{"name": "dashboard", "port": 8265}], **head.get("headService", {}).get("spec", {})}
        service.setdefault("type", head.get("serviceType", "ClusterIP"))
        print(
            "---",
            json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": service}),
            sep="\n",
        )
if not pods:
    sys.exit("no pods in these manifests: no RayCluster, and no RayJob that makes one (mode jobOnCluster makes none)")
