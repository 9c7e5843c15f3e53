"""Regular expressions for the names of Kubernetes, from `k8s.io/apimachinery/pkg/util/validation`; in RE2 and Python
alike, each for a whole text but `NAME`."""

from __future__ import annotations

NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""A DNS-1123 subdomain, to be part of another expression."""
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

SUBDOMAIN = f"^{NAME}$"
"""The name of most kinds of objects."""
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""The name of a container, a volume or a namespace."""
LABEL_KEY = f"^({NAME}/)?{_WORD}$"
"""The key of a label or an annotation."""
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
PREFIXED = f"^{NAME}/{_WORD}$"
"""What Kubernetes knows with a prefix only: a resource of its own kind, a finalizer."""
ENV_NAME = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
