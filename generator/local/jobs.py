"""Submit the RayJob's entrypoint as KubeRay does in HTTPMode, and follow the job to its end."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from generator.local.errors import REFUSED, TOOL_FAILED, LocalError
from generator.local.mount import PathMap
from generator.local.web import WebError, request_json

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_UNREACHABLE_SECONDS = 30
_POLL_SECONDS = 0.5
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_REPEATED = re.compile(r" \[repeated \d+x across cluster\].*$")
_ACTOR = re.compile(r"^\((?P<name>[^()]*?) pid=\d+(?:, ip=(?P<ip>[0-9.:a-f]+))?\) ?")
# Ray's own lines: `2026-12-01 21:40:37,534\tINFO worker.py:1700 -- …`, `[2026-12-01 21:40:37,534 W 1 2] core.cc…`.
_RAY_LINE = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\s+(DEBUG|INFO|SUCC)\b|^\[\d{4}-\d\d-\d\d "
    r"|^Running entrypoint for job |^Reporting training result \d"
)


class Jobs:
    """Client of the Ray Jobs API of one cluster.

    Args:
        dashboard: address of the dashboard, `http://127.0.0.1:8265`.
        token: Ray's authentication token; None when authentication is off.
    """

    def __init__(self, dashboard: str, token: str | None) -> None:
        self._url = f"{dashboard}/api/jobs/"
        self._token = token

    def submit(self, body: Mapping[str, Any]) -> str:
        """Submit a job; returns its submission id.

        Raises:
            LocalError: Ray refuses it.
        """
        try:
            # Long: the first job of a cluster waits until the head's agent has started.
            answer = request_json(self._url, method="POST", body=body, token=self._token, timeout=60)
        except WebError as error:
            raise LocalError(f"Ray refused the job: {error}", exit_code=TOOL_FAILED) from error
        return str(answer.get("submission_id") or answer["job_id"])

    def info(self, submission: str) -> Mapping[str, Any]:
        """State of a job: `status`, `message`, `driver_exit_code` …

        Raises:
            WebError: the dashboard did not answer.
        """
        answer = request_json(self._url + submission, token=self._token)
        if not isinstance(answer, dict) or "status" not in answer:
            raise WebError(f"the Jobs API answered without a status: {answer!r:.200}")
        return answer

    def stop(self, submission: str) -> None:
        """Ask a job to stop, as the operator does when a RayJob is deleted; does not wait.

        Raises:
            WebError: the dashboard did not answer.
        """
        request_json(f"{self._url}{submission}/stop", method="POST", token=self._token, timeout=5)

    def follow(
        self,
        submission: str,
        tail: Tail,
        *,
        timeout: float,
        line: Callable[[str], None],
        check: Callable[[], None],
    ) -> Mapping[str, Any]:
        """Wait for the end of a job while its driver's log is passed on; returns the last `info`.

        Args:
            submission: submission id.
            tail: the driver's log file on this machine.
            timeout: seconds.
            line: receives every line of the log, without its end.
            check: called at every poll; raises when the cluster is broken.

        Raises:
            LocalError: the time is up, or the dashboard has not answered for half a minute.
            Whatever `check` raises.
        """
        began = last_answer = time.monotonic()
        while True:
            info: Mapping[str, Any] = {}
            try:
                info = self.info(submission)
                last_answer = time.monotonic()
            except WebError as error:
                if time.monotonic() - last_answer > _UNREACHABLE_SECONDS:
                    raise LocalError(f"the Jobs API no longer answers: {error}", exit_code=TOOL_FAILED) from error
            ended = info.get("status") in ENDED
            for text in tail.lines(last=ended):
                line(text)
            if ended:
                return info
            check()
            if time.monotonic() - began > timeout:
                raise LocalError(f"the job did not end within {timeout:.0f} s (status {info.get('status')})")
            time.sleep(_POLL_SECONDS)


class Tail:
    """New complete lines of a growing file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def lines(self, *, last: bool) -> Iterator[str]:
        """Lines since the last call; with `last` also an unfinished one."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                chunk = file.read()
        except FileNotFoundError:
            return
        self._offset += len(chunk)
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        if last and self._rest:
            complete.append(self._rest)
            self._rest = b""
        for line in complete:
            yield line.decode(errors="replace").rstrip("\r")


def submission_body(spec: Mapping[str, Any], submission: str, paths: PathMap) -> dict[str, Any]:
    """The request that KubeRay sends for a RayJob (`ConvertRayJobToReq`), with container paths mapped.

    Args:
        spec: `spec` of the RayJob.
        submission: submission id.
        paths: the head's path map, where the entrypoint runs.

    Raises:
        LocalError: `runtimeEnvYAML` or `entrypointResources` cannot be read.
    """
    body: dict[str, Any] = {"entrypoint": paths.apply(str(spec["entrypoint"])), "submission_id": submission}
    try:
        if spec.get("runtimeEnvYAML"):
            body["runtime_env"] = paths.apply_nested(yaml.safe_load(spec["runtimeEnvYAML"]))
        if spec.get("entrypointResources"):
            body["entrypoint_resources"] = json.loads(spec["entrypointResources"])
    except (yaml.YAMLError, ValueError) as error:
        raise LocalError(f"runtimeEnvYAML or entrypointResources cannot be read: {error}", exit_code=REFUSED) from error
    if spec.get("metadata"):
        body["metadata"] = dict(spec["metadata"])
    for key, field in (
        ("entrypointNumCpus", "entrypoint_num_cpus"),
        ("entrypointNumGpus", "entrypoint_num_gpus"),
    ):
        if spec.get(key):
            body[field] = spec[key]
    return body


def readable(line: str) -> str | None:
    """A line of the driver's log for a terminal: without colours and worker prefix; None for Ray's own chatter."""
    plain = _COLOUR.sub("", line).rstrip()
    found = _ACTOR.match(plain)
    text = _REPEATED.sub("", plain[found.end() :] if found else plain)
    if not text.strip() or _RAY_LINE.match(text):
        return None
    return text
