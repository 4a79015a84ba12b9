"""Whole machines by rules, found by annealing: programs, rules, start and stop together."""
