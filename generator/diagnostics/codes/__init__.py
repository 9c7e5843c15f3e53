"""Every code that a finding may carry. Codes are never reused for another meaning; one module per topic."""

from generator.diagnostics.codes import fit, gitops, image, kubernetes, money, network, shape, storage
from generator.diagnostics.codes.code import Code
from generator.diagnostics.codes.pages import page_of

TOPICS = (shape, fit, network, image, kubernetes, storage, gitops, money)
CODES: dict[str, Code] = {code: entry for topic in TOPICS for code, entry in topic.CODES.items()}


def page(code: str) -> str:
    """What there is to say about a code, as Markdown that also reads as plain text.

    Raises:
        KeyError: there is no such code.
    """
    return page_of(code, CODES[code])


__all__ = ["CODES", "TOPICS", "Code", "page"]
