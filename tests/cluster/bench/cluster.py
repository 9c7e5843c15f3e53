"""Use a running cluster: kubectl, Helm, the API, and what it knows when something went wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.bench import api
from tests.cluster.bench.layout import BenchError, Layout
from tests.cluster.bench.processes import run, wait_for
from tests.cluster.tools import build


class Cluster:
    """What can be asked of a bench's cluster. `Bench` adds how it comes and goes.

    Attributes:
        files: the bench's files.
    """

    files: Layout

    def check(self) -> None:
        """See that every component still runs.

        Raises:
            BenchError: one has ended.
        """
        raise NotImplementedError

    def first_process(self) -> int:
        """Process id of the bench's first process, whose network the cluster's is.

        Raises:
            BenchError: the bench does not run.
        """
        raise NotImplementedError

    def tool(self, name: str, *words: str) -> list[str]:
        """A command line that runs `kubectl`, `helm` or `helm3` as administrator, from this machine's files.

        Raises:
            BenchError: the bench does not run.
        """
        settings = [f"{name}={value}" for name, value in self.settings().items()]
        network = f"--net=/proc/{self.first_process()}/ns/net"
        return ["nsenter", network, "--", "env", *settings, str(build.program(name)), *words]

    def settings(self) -> dict[str, str]:
        """Environment in which kubectl and Helm are the administrator's, and leave the person's own files alone."""
        home = self.files.run / "helm"
        helm = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return {**helm, "KUBECONFIG": str(self.files.kubeconfig("admin"))}

    def kubectl(
        self, *words: str, namespace: str = "", text: str = "", timeout_s: float = 60, check: bool = True
    ) -> str:
        """Standard output of kubectl; `text` is its standard input.

        Raises:
            BenchError: it failed, with what it said.
        """
        where = [f"--namespace={namespace}"] if namespace else []
        return run(*self.tool("kubectl", *where, *words), text=text, timeout_s=timeout_s, check=check)

    def helm(
        self, *words: str, namespace: str = "", text: str = "", timeout_s: float = 120, program: str = "helm"
    ) -> str:
        """Standard output of Helm 4 (`program`: of `helm3`); `text` is its standard input.

        Raises:
            BenchError: it failed, with what it said.
        """
        where = [f"--namespace={namespace}"] if namespace else []
        return run(*self.tool(program, *where, *words), text=text, timeout_s=timeout_s)

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """One object, None when there is none of this name; `kind` in the plural, one of `api.GROUPS`.

        Raises:
            BenchError: the API does not answer.
        """
        return api.get(self.files.api, kind, namespace, name)

    def objects(self, kind: str, namespace: str = "", *, selector: str = "") -> list[dict[str, Any]]:
        """Objects of a kind; without a namespace, of all.

        Raises:
            BenchError: the API does not answer.
        """
        found = api.get(self.files.api, kind, namespace, selector=selector)
        return list(found["items"]) if found else []

    def apply(self, *objects: dict[str, Any], namespace: str = "") -> None:
        """Create or change objects."""
        self.kubectl("apply", "--filename=-", namespace=namespace, text=yaml.safe_dump_all(objects))

    def wait_for(
        self,
        what: str,
        check: Callable[[], Any],
        *,
        timeout_s: float,
        every_s: float = 1,
        hint: Callable[[], str] = str,
    ) -> Any:
        """The first result of `check` that is true; gives up at once when a component of the bench has ended.

        Args:
            hint: more for the message when it does not come, such as the last state seen.

        Raises:
            BenchError: it did not come in time.
        """

        def checked() -> Any:
            result = check()
            if not result:
                self.check()
            return result

        return wait_for(what, checked, timeout_s=timeout_s, every_s=every_s, hint=hint)

    def collect(self, label: str, namespaces: Sequence[str]) -> Path:
        """Write what the cluster knows of these namespaces to `logs/<label>`: objects, events, logs of every pod.

        As much as can be had: a bench that has ended says nothing more.
        """
        folder = self.files.logs / label
        folder.mkdir(parents=True, exist_ok=True)

        def keep(name: str, *words: str, namespace: str = "") -> None:
            with contextlib.suppress(BenchError):
                text = self.kubectl(*words, namespace=namespace, timeout_s=20, check=False)
                (folder / name).write_text(text, encoding="utf-8")

        keep("nodes.txt", "describe", "nodes")
        for namespace in namespaces:
            keep(f"{namespace}.events.txt", "get", "events", "--sort-by=.lastTimestamp", namespace=namespace)
            kinds = "rayjobs,rayclusters,pods,jobs,services,configmaps,networkpolicies"
            keep(f"{namespace}.objects.yaml", "get", kinds, "--output=yaml", namespace=namespace)
            with contextlib.suppress(BenchError):
                for pod in self.objects("pods", namespace):
                    name = pod["metadata"]["name"]
                    log = ("logs", name, "--all-containers", "--prefix", "--ignore-errors")
                    keep(f"{namespace}.{name}.log", *log, namespace=namespace)
        return folder
