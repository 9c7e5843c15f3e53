"""Run a rendered RayJob on this machine's own Ray; `local` takes the place of Kubernetes and of KubeRay.

What is played, and by which module:

* `manifests`: `helm template`; the RayJob and the ConfigMap that its pods mount are taken out of the output.
* `mount`: the kubelet's volumes. ConfigMaps with `..data` links and read-only, claims and emptyDirs as folders.
* `pods`, `raycluster`: the operator's pods. `ray start` with the flags and the environment that KubeRay 1.6
  generates from the same RayCluster, each in its own session and on its own loopback address, under
  `authOptions.mode: token` with a fresh token.
* `jobs`: submission in HTTPMode, with the same request to the Ray Jobs API.
* `supervisor`, `processes`: what the container runtime does: when a pod goes, all its processes go.

Not played, and listed at every run where the RayJob asks for it: the image (this Python and this Ray run instead),
scheduling, security contexts, init and further containers, retries (`backoffLimit`), clean-up by TTL. NetworkPolicy
and ServiceAccount are not read.

Nothing of the RayJob is changed but two things, both printed: container paths become paths of this machine, and the
few `ray start` flags that must differ on a shared host (ports, addresses, folders) are replaced.
"""
