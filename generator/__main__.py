"""`python -m generator`."""

import os
import signal
import sys
from types import FrameType


def _stop(_signal: int, _frame: FrameType | None) -> None:
    os._exit(130)


# While the imports run, an interrupt has nothing to put back; and raised inside of a class body, Python would turn it
# into another error. `main` sees to it from then on.
previous = signal.getsignal(signal.SIGINT)
if previous is signal.default_int_handler:
    signal.signal(signal.SIGINT, _stop)

from generator.cli import main  # noqa: E402

signal.signal(signal.SIGINT, previous)
sys.exit(main())
