from pomp.core.errors import PompError as PompError
from pomp.dsl.bytecode import compile_ids as compile_ids, compile_programs as compile_programs
from pomp.dsl.parser import parse as parse
from pomp.dsl.printer import print_program as print_program
from pomp.dsl.sampling import sample_programs as sample_programs
from pomp.embedding.space import Embedding as Embedding
from pomp.engine.recording import record as record
from pomp.engine.rollouts import act_on as act_on, advance as advance, rollout as rollout
from pomp.engine.starts import (
    begin as begin,
    draw_starts as draw_starts,
    enumerate_starts as enumerate_starts,
)
from pomp.karel.world import Map as Map, WorldBatch as WorldBatch
from pomp.machine.evaluation import evaluate as evaluate
from pomp.machine.policy import ProgramMachine as ProgramMachine
from pomp.machine.verification import verify as verify
from pomp.machine.zoo import load_machine as load_machine
from pomp.runs.evolutions import evolve as evolve
from pomp.runs.policies import evaluate_policy as evaluate_policy
from pomp.runs.searches import search as search
from pomp.runs.trainings import train as train
from pomp.tasks.catalog import TASKS as TASKS, find_task as find_task
from pomp.tasks.task import Task as Task
from pomp.version import __version__ as __version__
