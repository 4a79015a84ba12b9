from pomp.engine.lanes import BY_CHOICE as BY_CHOICE, BY_LIMIT as BY_LIMIT
from pomp.engine.recording import record as record
from pomp.engine.rollouts import act_on as act_on, advance as advance, rollout as rollout
from pomp.engine.starts import (
    begin as begin,
    draw_starts as draw_starts,
    enumerate_starts as enumerate_starts,
    reset as reset,
)
