"""The images that the nodes find as if they had pulled them: archives with an empty layer, and root file systems.

Nothing is pulled or unpacked. containerd imports an image whose only layer holds a marker; the node then mounts the
root file system over the folder that containerd unpacked the layer to. Pods, users, entry points and writable layers
are real.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.bench.layout import BenchError
from tests.cluster.bench.node_config import PAUSE_IMAGE
from tests.cluster.tools import build

BUSYBOX = "docker.io/library/busybox:1.36"
COREDNS = "registry.k8s.io/coredns/coredns:bench"
DEVICE_PLUGIN = "bench.local/device-plugin:bench"
NETWORK_POLICIES = "registry.k8s.io/networking/kube-network-policies:bench"

BUSYBOX_PROGRAM = Path("/bin/busybox")
APPLETS = ("sh", "sleep", "cat", "ls", "wget", "nc", "nslookup", "httpd", "id", "true", "touch", "env")
# Of the machine's own /usr: a shell, git, the core programs and the libraries that they and Python need.
USR_PARTS = ("bin", "sbin", "lib64", "lib/git-core", "share/git-core", "share/zoneinfo", "share/ca-certificates")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        name: with its tag, as pods name it.
        root: its root file system.
        config: `Entrypoint`, `Env`, `User` … of the OCI image configuration.
    """

    name: str
    root: Path
    config: dict[str, Any]

    @property
    def marker(self) -> str:
        """File in its only layer by which a node finds the layer's folder."""
        return "layer-" + hashlib.sha256(self.name.encode()).hexdigest()[:16]


def operator_image() -> str:
    """The KubeRay operator's, with the version that is built."""
    return f"quay.io/kuberay/operator:{build.TOOLS['kuberay-operator'].version}"


def prepare(folder: Path, ray_image: str) -> list[Image]:
    """Make every root file system below `folder` that is not there yet.

    Args:
        ray_image: the name under which this Python's virtual environment is offered as the training image.

    Raises:
        BenchError: a part of one is missing on this machine.
        build.BuildError: a program cannot be built.
    """
    os.umask(0o022)  # pods run as other users than the one who starts the bench
    folder.mkdir(parents=True, exist_ok=True)
    with build.locked(folder / "lock"):  # several benches may share the folder
        for left in folder.glob(".*"):  # of a start that was stopped
            shutil.rmtree(left)
        return _images(folder, ray_image)


def _images(folder: Path, ray_image: str) -> list[Image]:
    programs: tuple[tuple[str, str, str, dict[str, str]], ...] = (
        (operator_image(), "kuberay-operator", "/manager", {"User": "65532:65532"}),
        (COREDNS, "coredns", "/coredns", {}),
        (DEVICE_PLUGIN, "device-plugin", "/device-plugin", {}),
        (NETWORK_POLICIES, "network-policies", "/bin/netpol", {}),
    )
    images = [
        Image(name, _one_program(folder, build.program(program), path), {"Entrypoint": [path], **more})
        for name, program, path, more in programs
    ]
    busybox = _busybox(folder)
    images.append(Image(BUSYBOX, busybox, {"Env": ["PATH=/bin"], "Cmd": ["sh"]}))
    images.append(Image(PAUSE_IMAGE, busybox, {"Entrypoint": ["/bin/busybox", "sleep", "infinity"]}))
    venv = Path(sys.prefix)
    path = f"{venv}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = [f"PATH={path}", "HOME=/root", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1"]
    images.append(Image(ray_image, _ray(folder, venv), {"Env": environment, "WorkingDir": "/", "Cmd": ["bash"]}))
    return images


def write_archive(path: Path, images: Sequence[Image]) -> None:
    """Write one OCI image layout with all images, each with a layer of nothing but its marker."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> tuple[str, int]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return f"sha256:{digest}", len(content)

    manifests = []
    for image in images:
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            tar.addfile(tarfile.TarInfo(image.marker))
        layer_digest, layer_size = blob(layer.getvalue())
        config_digest, config_size = blob(
            _json(
                {
                    "architecture": ARCHITECTURES[platform.machine()],
                    "os": "linux",
                    "config": image.config,
                    "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
                }
            )
        )
        oci = "application/vnd.oci.image"
        layers = [{"mediaType": f"{oci}.layer.v1.tar", "digest": layer_digest, "size": layer_size}]
        config = {"mediaType": f"{oci}.config.v1+json", "digest": config_digest, "size": config_size}
        manifest = {"schemaVersion": 2, "mediaType": f"{oci}.manifest.v1+json", "config": config, "layers": layers}
        digest, size = blob(_json(manifest))
        annotations = {"io.containerd.image.name": image.name}
        described = {"mediaType": f"{oci}.manifest.v1+json", "digest": digest, "size": size, "annotations": annotations}
        manifests.append(described)
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": manifests}))
        for digest, content in blobs.items():
            _add(archive, f"blobs/sha256/{digest}", content)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _one_program(folder: Path, program: Path, where: str) -> Path:
    """Root with one static program; `folder` keeps one per version of the program."""
    root = folder / f"{program.parent.name}-{program.name}"
    if not root.exists():
        scratch = _scratch(root)
        target = scratch / where.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        _link(program, target)
        scratch.replace(root)
    return root


def _busybox(folder: Path) -> Path:
    facts = [hashlib.sha256(BUSYBOX_PROGRAM.read_bytes()).hexdigest(), *APPLETS]
    root = folder / f"busybox-{hashlib.sha256(' '.join(facts).encode()).hexdigest()[:12]}"
    if not root.exists():
        scratch = _scratch(root)
        (scratch / "bin").mkdir()
        _link(BUSYBOX_PROGRAM, scratch / "bin" / "busybox")
        for applet in APPLETS:
            (scratch / "bin" / applet).symlink_to("busybox")
        (scratch / "tmp").mkdir()
        (scratch / "tmp").chmod(0o1777)
        scratch.replace(root)
    return root


def _ray(folder: Path, venv: Path) -> Path:
    """Root with this virtual environment at its own path, its Python, and the machine's shell and libraries."""
    for module in ("ray/__init__.py", "torch/__init__.py"):
        if not Path(sysconfig.get_path("platlib"), module).is_file():
            raise BenchError(f"this Python has no {module.split('/')[0]}: run it from the project's .venv (make test)")
    root = folder / f"ray-{_fingerprint(venv)}"
    if root.exists():
        return root
    for old in folder.glob("ray-*"):  # of an earlier state of the virtual environment
        shutil.rmtree(old)
    scratch = _scratch(root)
    library = Path("lib") / sysconfig.get_config_var("MULTIARCH")
    base = Path(sys.base_prefix)
    parts = [Path("/usr") / part for part in (*USR_PARTS, library)]
    parts += [*Path("/usr/lib").glob("python3*")] if base == Path("/usr") else [base]
    for part in [*parts, venv]:
        if part.exists():
            _link_tree(part, scratch)
    for name in ("bin", "sbin", "lib", "lib64"):
        (scratch / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "run", "root", "etc/ssl"):
        (scratch / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp", "dev/shm"):
        (scratch / name).mkdir(parents=True, exist_ok=True)  # there when the checkout is in such a folder
        (scratch / name).chmod(0o1777)
    etc = {
        "passwd": "root:x:0:0:root:/root:/bin/bash\nray:x:1000:100:ray:/tmp:/bin/bash\n",
        "group": "root:x:0:\nusers:x:100:\n",
        "nsswitch.conf": "hosts: files dns\npasswd: files\ngroup: files\n",
    }
    for name, text in etc.items():
        (scratch / "etc" / name).write_text(text, encoding="utf-8")
    for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs"):
        if (source := Path("/etc") / name).exists():
            run_cp("-a", source, scratch / "etc" / name)
    scratch.replace(root)
    return root


def _fingerprint(venv: Path) -> str:
    """Changes when a package of Python or Debian comes or goes, the environment moves, or this file changes."""
    changing = [Path(__file__), Path("/var/lib/dpkg/status"), Path(sysconfig.get_path("platlib"))]
    changing += sorted(Path(sysconfig.get_path("platlib")).glob("*.dist-info"))
    facts = [str(venv), sys.base_prefix, sys.version]
    facts += [f"{path} {path.stat().st_mtime_ns}" for path in changing if path.exists()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _scratch(root: Path) -> Path:
    """An empty folder beside `root`, to be renamed when it is whole: a start that is stopped leaves no half of one."""
    scratch = root.with_name(f".{root.name}.{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o755)
    return scratch


def _link_tree(source: Path, root: Path) -> None:
    """`source` under the same path in `root`, as hard links where both lie on one file system, else copied."""
    target = root / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return
    same = source.stat().st_dev == root.stat().st_dev
    run_cp("-al" if same else "-a", source, target)


def _link(source: Path, target: Path) -> None:
    same = source.stat().st_dev == target.parent.stat().st_dev
    run_cp("-lL" if same else "-L", source, target)


def run_cp(how: str, source: Path, target: Path) -> None:
    """Copy or link with cp, which does a tree of 100,000 files in seconds.

    Raises:
        BenchError: with cp's own words.
    """
    done = subprocess.run(["cp", how, source, target], capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise BenchError(f"cannot make the image's files: {done.stderr.strip()[-500:]}")
