"""Numbers as people read them. A reader gets three or four digits; JSON has them all."""

from __future__ import annotations


def gigabytes(count: float) -> str:
    """Bytes as GB of 10⁹ bytes."""
    return f"{count / 1e9:.2f} GB"


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"


def usd(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.4f}"


def span(low: str, high: str) -> str:
    """`1.63 to 2.25`, or one of them where they read the same."""
    return low if low == high else f"{low} to {high}"


def duration(value: float) -> str:
    """Seconds as hours and minutes, or minutes and seconds below an hour."""
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def gibibytes(mib: int) -> str:
    """MiB as GiB."""
    return f"{mib / 1024:.1f}".removesuffix(".0")


def cores(cpu_m: int) -> str:
    """Thousandths of a vCPU as vCPU."""
    return f"{cpu_m / 1000:.2f}".rstrip("0").rstrip(".")


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
