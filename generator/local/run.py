"""`local`: render, play the cluster, submit, follow, report.

The work folder (`.local/<environment>`) holds, after a run:

    manifests.yaml   what ran: the chart's output
    root/            code of the ConfigMap, as pods see it
    pods/<pod>/      working folder and emptyDirs of each node
    storage/<claim>/ claims: checkpoints, run.json, loss.svg; kept, so that the same RayJob resumes or ends at once
    logs/            job.log, one log per node, and after a failure the logs of the Ray sessions
"""

from __future__ import annotations

import fcntl
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from generator.local.errors import INTERRUPTED, REFUSED, LocalError
from generator.local.jobs import Jobs, Tail, readable, submission_body
from generator.local.manifests import Rendered, from_file, render
from generator.local.mount import PathMap, remove_tree
from generator.local.raycluster import RayCluster, submission_id
from generator.local.report import Record, failure, module_of, print_plan, print_result, read_record, relative
from generator.local.web import WebError
from generator.tools import ToolMissingError

TIMEOUT_SECONDS = 900
_STOP_SECONDS = 15
_LOCK = ".local-run.lock"  # also the mark of a folder that `local` has made


@dataclass(frozen=True)
class LocalResult:
    """How a run ended."""

    status: str
    """`SUCCEEDED`, `FAILED` or `STOPPED`, as Ray says it."""
    run_path: Path
    """`RTD_RUN_PATH` on this machine."""
    record_path: Path | None
    """`run.json`; None when the job wrote none with steps in it."""
    record_due: bool
    """Whether the job must leave one: the bundled training does, a module of the user's own need not."""
    loss_svg_path: Path | None
    seconds: float
    """From the first process to the end of the job."""
    first_loss: float | None = None
    last_loss: float | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the job did what it was started for."""
        return self.status == "SUCCEEDED" and (self.record_path is not None or not self.record_due)


def main_local(
    root: Path,
    env_name: str,
    chart: Path,
    values_files: Sequence[Path],
    namespace: str,
    release: str,
    work_dir: Path | None = None,
    manifests: Path | None = None,
    timeout: float = TIMEOUT_SECONDS,
    *,
    fresh: bool = False,
) -> int:
    """The `local` command; returns its exit code.

    Args:
        root: project root.
        env_name: environment, for the default work folder.
        chart: chart to render.
        values_files: values files in Helm's order.
        namespace: namespace of the release.
        release: Helm release name.
        work_dir: where everything is written; `<root>/.local/<env_name>` when None.
        manifests: run this file of rendered manifests instead of the chart.
        timeout: seconds for the job.
        fresh: remove this environment's storage first, so that a finished run trains again.

    Returns:
        0 the job succeeded and left the run record that the bundled training owes, 1 it did not, 4 refused, 5 a tool
        is missing or failed, 130 interrupted.
    """
    echo = _echo
    folder = work_dir or root / ".local" / env_name
    try:
        if manifests is not None:
            rendered = from_file(manifests, namespace=namespace)
        else:
            rendered = render(chart, values_files, release=release, namespace=namespace)
        result = run_local(rendered, work_dir=folder, echo=echo, timeout=timeout, fresh=fresh)
    except (LocalError, ToolMissingError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return error.exit_code if isinstance(error, LocalError) else 5
    except KeyboardInterrupt:
        echo("interrupted; no process is left")
        return INTERRUPTED
    return 0 if result.succeeded else 1


def run_local(
    rendered: Rendered,
    *,
    work_dir: Path,
    echo: Callable[[str], None],
    timeout: float = TIMEOUT_SECONDS,
    fresh: bool = False,
) -> LocalResult:
    """Run one RayJob to its end on a Ray cluster of its own; no process is left however it ends.

    Args:
        rendered: the RayJob and its ConfigMaps.
        work_dir: folder for everything that the run writes.
        echo: receives lines for the user.
        timeout: seconds for the job; the RayJob's `activeDeadlineSeconds` counts too.
        fresh: remove the claims' folders first.

    Raises:
        LocalError, ToolMissingError: the run cannot start or breaks down; a job that fails is a result, not an error.
        KeyboardInterrupt: after the job was asked to stop and every process has ended.
    """
    work_dir = work_dir.resolve()
    if ":" in str(work_dir):
        raise LocalError(f"{work_dir}: a path with a colon cannot stand in PYTHONPATH", exit_code=REFUSED)
    work_dir.mkdir(parents=True, exist_ok=True)
    if any(work_dir.iterdir()) and not (work_dir / _LOCK).exists():
        # Its logs, code and pods are removed at each start: only a folder that `local` has made is safe for that.
        raise LocalError(
            f"{relative(work_dir)} holds other files, and `local` would remove some of them; "
            "give an empty or new folder",
            exit_code=REFUSED,
        )
    with _lock(work_dir) as lock:
        if fresh and (work_dir / "storage").exists():
            echo(f"fresh: removing {relative(work_dir / 'storage')}")
            remove_tree(work_dir / "storage")
        remove_tree(work_dir / "logs")
        (work_dir / "logs").mkdir()
        (work_dir / "manifests.yaml").write_text(rendered.text, encoding="utf-8")
        cluster = RayCluster(rendered, work_dir=work_dir, hold=[lock.fileno()])
        try:
            return _run(cluster, work_dir, echo, timeout)
        finally:
            if left := cluster.close():
                echo(f"warning: these processes could not be ended: {', '.join(map(str, sorted(left)))}")


def _run(cluster: RayCluster, work_dir: Path, echo: Callable[[str], None], timeout: float) -> LocalResult:
    spec = cluster.rendered.spec
    cluster.prepare()
    run_paths = _run_paths(cluster)
    before = _first_record(run_paths)
    print_plan(cluster, work_dir, str(spec["entrypoint"]), echo)
    began = time.monotonic()
    submission = submission_id(cluster.rendered)
    limit = min(timeout, float(spec.get("activeDeadlineSeconds") or timeout))
    job_log = _JobLog(cluster.log_dir / "job.log", echo)
    submitted = False
    try:
        cluster.start(echo=echo)
        jobs = Jobs(cluster.dashboard, cluster.token)
        tail = Tail(cluster.session_logs["head"] / f"job-driver-{submission}.log")
        body = submission_body(spec, submission, PathMap(cluster.nodes[0].mounts))
        submitted = True
        jobs.submit(body)
        echo(f"submitted {submission}")
        info = jobs.follow(submission, tail, timeout=limit, line=job_log.line, check=cluster.check)
    except KeyboardInterrupt:
        if submitted:
            echo("interrupted: asking the job to stop and save (Ctrl-C again ends it at once)")
            try:
                jobs.stop(submission)
                jobs.follow(submission, tail, timeout=_STOP_SECONDS, line=job_log.line, check=cluster.check)
            except (KeyboardInterrupt, LocalError, WebError):
                echo("ending all processes")
        raise
    except LocalError:
        echo(f"logs        {relative(cluster.save_session_logs())}")
        raise
    seconds = time.monotonic() - began
    return _result(cluster, info, run_paths, before, seconds, echo, log_shown=job_log.shown > 0)


def _result(
    cluster: RayCluster,
    info: Mapping[str, Any],
    run_paths: Sequence[Path],
    before: Record | None,
    seconds: float,
    echo: Callable[[str], None],
    *,
    log_shown: bool,
) -> LocalResult:
    """Report the end of a job and build its result."""
    status = str(info["status"])
    after = _first_record(run_paths)
    has_steps = after is not None and bool(after.steps)
    module = module_of(str(cluster.rendered.spec["entrypoint"]))
    record_due = module == "training.train"
    run_path = after.path.parent if after is not None else run_paths[0]
    loss_svg = run_path / "loss.svg"
    if status == "SUCCEEDED":
        echo(f"job SUCCEEDED after {seconds:.0f} s")
        if after is not None and has_steps:
            print_result(before, after, loss_svg, echo)
        elif record_due:
            echo(f"error: the job left no run record with steps at {relative(run_path / 'run.json')}")
        else:
            echo(f"no run record: {module} wrote none; what it keeps is below {relative(run_path)}")
    else:
        for line in failure(info, log_shown=log_shown):
            echo(line)
    if status != "SUCCEEDED" or (record_due and not has_steps):
        echo(f"logs        {relative(cluster.save_session_logs())}")
        echo(f"job log     {relative(cluster.log_dir / 'job.log')}")
    return LocalResult(
        status=status,
        run_path=run_path,
        record_path=after.path if after is not None and has_steps else None,
        record_due=record_due,
        loss_svg_path=loss_svg if loss_svg.exists() else None,
        seconds=seconds,
        first_loss=after.steps[0][1] if after is not None and has_steps else None,
        last_loss=after.steps[-1][1] if after is not None and has_steps else None,
    )


class _JobLog:
    """Copies the job's log to the work folder line by line, and passes the readable lines on."""

    def __init__(self, copy: Path, echo: Callable[[str], None]) -> None:
        self._copy = copy
        self._echo = echo
        self.shown = 0

    def line(self, text: str) -> None:
        with self._copy.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        if (shown := readable(text)) is not None:
            self.shown += 1
            self._echo(f"  {shown}")


def _run_paths(cluster: RayCluster) -> list[Path]:
    """`RTD_RUN_PATH` on this machine: of the workers (rank 0 writes the record there), then of the head.

    Raises:
        LocalError: it is not set, or in S3, where nothing on this machine can read the result.
    """
    paths: list[Path] = []
    for node in [*cluster.nodes[1:], cluster.nodes[0]]:
        value = node.env.get("RTD_RUN_PATH", "")
        if not value:
            raise LocalError(
                f"the RayJob sets no RTD_RUN_PATH in {node.pod.name}; local needs it to find the run record",
                exit_code=REFUSED,
            )
        if "://" in value:
            raise LocalError(
                f"the RayJob stores its run at {value}; local runs environments with storage pvc, fsx, efs or none",
                exit_code=REFUSED,
            )
        paths.append(Path(value))
    return paths


def _first_record(run_paths: Sequence[Path]) -> Record | None:
    return next((record for path in run_paths if (record := read_record(path / "run.json")) is not None), None)


@contextmanager
def _lock(work_dir: Path) -> Iterator[TextIO]:
    """Keep a second run out of the same work folder.

    Raises:
        LocalError: another run is using it.
    """
    with (work_dir / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LocalError(
                f"another run is using {relative(work_dir)}; wait for its end, or give another work folder",
                exit_code=REFUSED,
            ) from error
        yield file


def _echo(line: str) -> None:
    print(line, flush=True)
