"""Every code that a finding may carry: its title and its usual severity. Codes are never reused for another meaning.

1xx shape and syntax · 2xx instance and fit · 3xx network · 4xx image · 5xx Kubernetes and KubeRay ·
6xx storage and security · 7xx GitOps · 8xx money and limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from generator.diagnostics.finding import Severity

E, W = Severity.ERROR, Severity.WARNING


@dataclass(frozen=True, slots=True)
class Code:
    """A code's title and usual severity."""

    title: str
    severity: Severity


CODES: dict[str, Code] = {
    "RTD101": Code("the file is not valid YAML", E),
    "RTD102": Code("a key stands twice in one map", E),
    "RTD103": Code("unknown key", E),
    "RTD104": Code("a value has the wrong type or form", E),
    "RTD105": Code("a required key is missing", E),
    "RTD106": Code("a file is missing or cannot be read", E),
    "RTD107": Code("the name in the file is not the name of the file or folder", E),
    "RTD108": Code("the file is too large or too deeply nested", E),
    "RTD109": Code("a training argument is unknown or has a bad value", E),
    "RTD201": Code("unknown instance type", E),
    "RTD202": Code("the instance type cannot run this training", E),
    "RTD203": Code("the instance type is not offered in the region", E),
    "RTD204": Code("more GPUs asked for than the instance type has", E),
    "RTD205": Code("the head does not fit on a system node", E),
    "RTD206": Code("a worker does not fit on its node", E),
    "RTD207": Code("processesPerNode contradicts the GPUs or the other groups", E),
    "RTD208": Code("the catalogue has no facts about the region", W),
    "RTD209": Code("the `local` type is mixed with nodes on AWS", E),
    "RTD210": Code("the heads of a cluster's environments do not fit on its system nodes together", W),
    "RTD301": Code("EFA asked for on an instance type without it", E),
    "RTD302": Code("a group with EFA needs exactly one availability zone", E),
    "RTD303": Code("the availability zone is not in the cluster's region", E),
    "RTD304": Code("the group's zone is not among the cluster's zones", E),
    "RTD305": Code("an EKS cluster needs at least two availability zones", E),
    "RTD306": Code("several nodes without EFA talk over TCP", W),
    "RTD307": Code("the worker groups are on different networks", E),
    "RTD401": Code("the image repository or tag is malformed", E),
    "RTD402": Code("the image digest is malformed", E),
    "RTD403": Code("the image is not pinned by its digest", W),
    "RTD404": Code("the image tag moves", W),
    "RTD405": Code("rayVersion is not the Ray version of the image", E),
    "RTD501": Code("a name is too long or malformed for Kubernetes, KubeRay or AWS", E),
    "RTD502": Code("the Kubernetes version is not supported", E),
    "RTD503": Code("the KubeRay version is not supported", E),
    "RTD504": Code("two environments collide on one cluster", E),
    "RTD505": Code("a cluster that eksctl makes needs this key", E),
    "RTD601": Code("several nodes need shared storage", E),
    "RTD602": Code("the storage location is malformed", E),
    "RTD801": Code("the nodes exceed the declared vCPU quota", E),
    "RTD802": Code("the reservation id is missing or malformed", E),
    "RTD803": Code("a reservation id where no reservation is used", E),
    "RTD804": Code("the GPUs are paid for and not used", W),
}
