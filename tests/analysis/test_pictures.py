"""Pictures of machines and their episodes."""

from dataclasses import replace

import pomp
from pomp.analysis import frames_of
from pomp.engine import draw_starts


def test_turns_before_the_end_are_no_frames():
    plain = pomp.load_machine("zoo:StairClimber/text")
    turning = replace(plain, episode=replace(plain.episode, last_words=True))
    counts = []
    for machine in (plain, turning):
        found = pomp.evaluate(machine, episodes=2)
        starts = draw_starts(found.setting, 2, 0)
        counts.append((len(list(frames_of(machine, found, starts))), int(found.actions[0])))
    (frames, actions), (others, more) = counts
    assert (others, more) == (frames, actions + 4)
