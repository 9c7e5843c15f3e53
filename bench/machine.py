"""What every result says of the machine that it was measured on."""

from __future__ import annotations

import os
import platform


def machine(load_before: float) -> dict[str, object]:
    """Cores, Python, system, and the load averages (one minute) before the measurement and now."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "loadAverage": [round(load_before, 2), round(os.getloadavg()[0], 2)],
    }
