"""checkov, a scanner of manifests, in a virtual environment of its own: it pins libraries that the project uses too."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from generator.tools import cache_dir
from tests.cluster.tools.build import locked

PINS = Path(__file__).with_suffix(".txt")
INSTALL_TIMEOUT_S = 15 * 60
SCAN_TIMEOUT_S = 5 * 60
_FOUND = 1  # exit status when a check fails


class CheckovError(Exception):
    """checkov cannot be installed, or went wrong itself; the text is what was said."""


@dataclass(frozen=True)
class Scan:
    """What checkov says of a folder.

    Attributes:
        failed: every failed check, as (its id, what it asks for, path of the file, `Kind.namespace.name`).
        passed: how many passed.
    """

    failed: tuple[tuple[str, str, str, str], ...]
    passed: int


def scan(folder: Path) -> Scan:
    """Run every check for Kubernetes over the YAML files of a folder, offline.

    Raises:
        CheckovError: it is not installed and cannot be, or a file is not readable to it.
    """
    command = [str(_program()), "--directory", str(folder), "--framework", "kubernetes"]
    # Without --skip-download it asks its maker for descriptions of the checks.
    command += ["--skip-download", "--quiet", "--compact", "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SCAN_TIMEOUT_S, check=False)
    if done.returncode not in {0, _FOUND}:
        raise CheckovError(f"checkov exited with {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    if not report.get("results") or report["summary"]["parsing_errors"]:
        raise CheckovError(f"checkov could not read all of {folder}: {report.get('summary', report)}")
    failed = report["results"]["failed_checks"]
    return Scan(
        tuple((found["check_id"], found["check_name"], found["file_path"], found["resource"]) for found in failed),
        report["summary"]["passed"],
    )


def _program() -> Path:
    """Path of checkov, installed into the user's cache first when it is not there; safe for processes at once."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_dir() / f"checkov-{python}-{hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]}"
    # A virtual environment cannot be moved into its place when it is complete, so a file in it says that it is.
    complete = folder / "complete"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("checkov.lock")):
        if not complete.exists():
            _run(sys.executable, "-m", "venv", "--clear", str(folder))
            pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            _run(str(folder / "bin" / "python"), *pip, "--requirement", str(PINS))
            complete.touch()
    return folder / "bin" / "checkov"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    if done.returncode:
        raise CheckovError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
