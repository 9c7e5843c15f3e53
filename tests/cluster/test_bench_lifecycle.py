"""A bench comes and goes without a trace, however it ends: benches of one node, beside the session's own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.bench import bench as bench_module
from tests.cluster.bench import cgroups
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.hardware import nodes_of
from tests.cluster.bench.layout import ROOT, BenchError, Layout
from tests.cluster.bench.processes import run, wait_for
from tests.cluster.tools import build

pytestmark = [pytest.mark.cluster, pytest.mark.full]

SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")
FOLDERS = ("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/run/containerd", "/run/netns", "/etc/cni")
# Starts a bench that ends with it, says so, and waits to be killed.
OWNER = """
import sys, time
from pathlib import Path
from tests.cluster.bench.bench import Bench
from tests.cluster.bench.hardware import nodes_of
from tests.cluster.bench.layout import Layout
bench = Bench("demo", Layout(Path(sys.argv[1]), images=Path(sys.argv[2])), nodes=nodes_of("demo")[:1])
bench.up()
print("up", flush=True)
time.sleep(600)
"""


# Starts one that stays, as `make cluster-up` does, and says when the control plane is there.
STAYS = OWNER.replace("bench.up()", "bench.up(owned=False, say=lambda text: print(text, flush=True))").replace(
    "import sys, time", "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.default_int_handler)"
)


@pytest.fixture
def small(bench: Bench, tmp_path: Path) -> Iterator[Bench]:
    """A bench of one node, not started, that shares the images of the session's."""
    made = Bench("demo", Layout(tmp_path / "bench", images=bench.files.images), nodes=nodes_of("demo")[:1])
    yield made
    made.down()


def test_nothing_outside_changes(small: Bench) -> None:
    before = _machine()
    small.up()
    assert _machine() == before
    assert _groups(small), "the control groups are where they are looked for"
    small.down()
    assert _machine() == before
    assert not _groups(small)
    assert not small.files.run.exists()
    assert small.files.log("kube-apiserver").exists(), "logs stay until the next start"


def test_there_is_no_way_out(small: Bench) -> None:
    """Neither from the control plane, nor from a node, nor from a pod's network: to this machine, or anywhere."""
    small.up()
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104 - every address of this machine
        port = server.getsockname()[1]
        own = run("hostname", "--all-ip-addresses").split()
        for address in ("127.0.0.1", *(ip for ip in own if ":" not in ip), "198.51.100.1"):
            for node in ("", "system-1"):
                tried = small.inside("busybox", "nc", "-w", "2", address, str(port), node=node)
                with pytest.raises(BenchError, match="ended with 1"):
                    run(*tried, timeout_s=10)
    assert run(*small.inside("ip", "-json", "route", "show", "default")) == "[]\n"


def test_two_benches_do_not_meet(bench: Bench, small: Bench) -> None:
    theirs = {node["metadata"]["uid"] for node in bench.objects("nodes")}
    small.up()
    own = small.objects("nodes")
    assert [node["metadata"]["name"] for node in own] == ["system-1"]
    assert not {node["metadata"]["uid"] for node in own} & theirs
    small.kubectl("create", "namespace", "only-here")
    assert bench.get("namespaces", "only-here") is None
    small.down()
    bench.check()
    assert {node["metadata"]["uid"] for node in bench.objects("nodes")} == theirs


def test_a_second_start_in_the_same_folder_is_refused(small: Bench) -> None:
    small.up()
    with pytest.raises(BenchError, match=r"runs in .* already: make cluster-down"):
        Bench("demo", small.files, nodes=small.nodes).up()
    small.check()


def test_it_ends_the_one_that_it_started_and_no_other(small: Bench) -> None:
    small.up()
    other = Bench("demo", small.files, nodes=small.nodes)
    other.down()  # started none: ends whichever runs there
    assert not small.runs()
    with other:
        small.down()
        other.check()
    assert not other.runs()


def test_a_start_elsewhere_is_not_taken_for_a_bench_to_end(small: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    small.files.folder.mkdir()
    monkeypatch.setattr(bench_module, "END_S", 1)
    with small._claimed(), pytest.raises(BenchError, match=rf"is held by {os.getpid()}, which starts one"):
        Bench("demo", small.files, nodes=small.nodes).down()


def test_a_bench_ends_with_a_killed_owner_and_the_next_start_cleans_up(small: Bench) -> None:
    small.files.folder.mkdir()
    arguments = [sys.executable, "-c", OWNER, str(small.files.folder), str(small.files.images)]
    closed = ["sh", "-c", 'exec "$@" <&-', "sh"]  # standard input, as under some schedulers
    owner = subprocess.Popen([*closed, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    assert small.runs()
    owner.kill()
    owner.communicate(timeout=30)
    wait_for("the bench to follow its owner", lambda: not small.runs(), timeout_s=30)
    assert small.files.run.exists(), "nobody cleaned up"
    assert _groups(small)
    small.up()
    small.check()


def test_a_bench_whose_first_process_is_killed_leaves_no_process(small: Bench) -> None:
    small.up(owned=False)
    inside = run(*small.inside("cat", "/proc/1/cmdline"))
    assert "tests.cluster.bench.machine" in inside
    first = small.first_process()
    os.kill(first, signal.SIGKILL)
    wait_for("the bench to end", lambda: not small.runs(), timeout_s=30)
    with pytest.raises(BenchError, match="does not run"):
        small.check()
    left = [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(small.files.folder).encode() in _read(p)]
    assert not left
    for damaged in (small.files.pid, small.files.state):  # as a full disk or a power cut leaves them
        damaged.write_text("{", encoding="utf-8")
    assert small.state()["phase"] == "not started"
    Bench("demo", small.files, nodes=small.nodes).down()
    assert not small.files.run.exists()


def test_a_start_that_is_told_to_end_takes_the_bench_with_it(small: Bench) -> None:
    small.files.folder.mkdir()
    arguments = [sys.executable, "-c", STAYS, str(small.files.folder), str(small.files.images)]
    starting = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert starting.stdout is not None
    while "installing DNS" not in starting.stdout.readline():
        assert starting.poll() is None
    assert small.runs()
    with pytest.raises(BenchError, match="is being started"):
        small.check()
    starting.terminate()
    starting.communicate(timeout=60)
    assert not small.runs()
    assert not small.files.run.exists()


def test_down_finds_a_bench_whose_pid_file_is_damaged(small: Bench) -> None:
    small.up(owned=False)
    small.files.pid.write_text("0 0", encoding="utf-8")
    Bench("demo", small.files, nodes=small.nodes).down()
    assert not small.runs()


def test_a_component_that_ends_is_told_with_its_log(small: Bench) -> None:
    small.up()
    pid = small.state()["running"]["kube-scheduler"]
    run(*small.inside("kill", "-9", str(pid)))
    with pytest.raises(BenchError, match="kube-scheduler ended with -9"):
        wait_for("the end", small.check, timeout_s=10)


def test_a_start_that_fails_names_the_logs_and_leaves_nothing(small: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = build.program
    monkeypatch.setattr(build, "program", lambda name: Path("/bin/false") if name == "kube-apiserver" else real(name))
    with pytest.raises(BenchError) as raised:
        small.up()
    assert "kube-apiserver ended with 1" in str(raised.value)
    assert f"logs of every component: {small.files.logs}" in str(raised.value)
    assert not small.runs()
    assert not small.files.run.exists()
    assert not _groups(small)


def _machine() -> dict[str, str]:
    """Everything of the machine that a Kubernetes node usually changes."""
    found = {name: Path("/proc/sys", name).read_text(encoding="utf-8") for name in SYSCTLS}
    found |= {folder: str(Path(folder).exists()) for folder in FOLDERS}
    found["mounts"] = Path("/proc/self/mounts").read_text(encoding="utf-8")
    found["links"] = run("ip", "-oneline", "link")
    found["routes"] = run("ip", "route", "show", "table", "all")
    found["rules"] = run("nft", "list", "ruleset")
    found["host name"] = os.uname().nodename
    listening = run("cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines()
    found["ports"] = "\n".join(sorted(line.split()[1] for line in listening if " 0A " in line))
    return found


def _groups(bench: Bench) -> list[Path]:
    return list(cgroups.MOUNT.glob(f"**/{cgroups.PARENT}/{bench.files.identity}"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
