"""What an evaluation says of itself in words: its episodes, and its share of the ceiling."""

from typing import Any


def tell_share(value: float, ceiling: float | None, digits: int = 1) -> str:
    """Say what share of the ceiling a return is; nothing where the ceiling is not known.

    The ceiling is what the best play that is known returns on average, and no bound: where a
    return is above it, that is said.

    Args:
        value: the return.
        ceiling: of the task in its setting.
        digits: decimals of the percentage.
    """
    if ceiling is None:
        return ""
    above = ", a known strategy's mean and no bound" if value > ceiling + 1e-9 else ""
    return f"{value / ceiling:z.{digits}%} of the ceiling {ceiling:g}{above}"


def in_brackets(*parts: str) -> str:
    """Return the parts that say something in brackets behind a space; nothing if none does."""
    told = "; ".join(part for part in parts if part)
    return f" ({told})" if told else ""


def count_episodes(told: dict[str, Any]) -> str:
    """Say how many episodes were played, or that all starts were.

    Args:
        told: an evaluation as JSON.
    """
    if not told["exact"]:
        return f"{told['episodes']} episodes"
    return f"all {told['episodes']} starts" if told["episodes"] > 1 else "the only start"
