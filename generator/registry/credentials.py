"""Credentials that `docker login` left in its configuration file. Those of a credential helper are not read."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from generator.registry.names import Repository


def authorization(repository: Repository) -> str | None:
    """The `Authorization` header for a registry; None: there are no credentials, or they are not readable."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or "~/.docker").expanduser()
    try:
        auths = json.loads((folder / "config.json").read_text(encoding="utf-8"))["auths"]
        for name in repository.logins:
            if name in auths and (auth := auths[name].get("auth")):
                base64.b64decode(auth, validate=True)
                return f"Basic {auth}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return None
    return None
