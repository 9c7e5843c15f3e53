"""Every code that a finding may carry. Codes are never reused for another meaning; one module per topic."""

from generator.diagnostics.codes import fit, gitops, image, kubernetes, money, network, shape, storage
from generator.diagnostics.codes.code import Code

CODES: dict[str, Code] = {
    code: entry
    for topic in (shape, fit, network, image, kubernetes, storage, gitops, money)
    for code, entry in topic.CODES.items()
}

__all__ = ["CODES", "Code"]
