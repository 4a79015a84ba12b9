"""Counts as their documentation says them, in plain Python."""

import numpy as np

COUNT, WALL = 15, 16
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west
SIDES = ("ahead", "right", "behind", "left")


def plain_counts(grid, row, col, facing):
    """All counts of one world by name; `grid` is `[H, W]` uint8."""
    found = {
        "markers": int((grid & COUNT).sum()),
        "markers here": int(grid[row, col] & COUNT),
        "walls": int((grid & WALL > 0).sum()),
        "row": row,
        "column": col,
        "heading": facing,
    }
    markers = [
        (abs(r - row) + abs(c - col), r, c)
        for r, c in np.argwhere(grid & COUNT).tolist()
        if (r, c) != (row, col)
    ]
    _, r, c = min(markers, default=(0, row, col))
    for turn, side in enumerate(SIDES):
        down, right = STEPS[(facing + turn) % 4]
        free = 0
        while not grid[row + (free + 1) * down, col + (free + 1) * right] & WALL:
            free += 1
        found[f"free {side}"] = free
        found[f"way {side}"] = max(0, (r - row) * down + (c - col) * right)
    return found
