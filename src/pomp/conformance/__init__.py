"""Replay of recorded reference traces: transition by transition, program by program."""
