"""Stage 3 by itself: on the modes the paper prints, transitions come near what is possible."""

import pytest

from pomp.learning.config import configure_learning
from pomp.learning.members import Member
from pomp.learning.training import Training
from pomp.machine.evaluation import evaluate
from pomp.runs.published import published_modes
from pomp.tasks.catalog import find_task

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("task", "steps", "least"), [("UpNDown", 200_000, 0.75)])
def test_the_printed_modes_earn_about_what_the_paper_reports(task, steps, least):
    config = configure_learning("paper", {"ppo.total": steps, "validation.every": 32})
    setting = find_task(task).configure()
    member = Member(setting, published_modes(task), 0, config.ppo.learning_rate)
    training = Training([member], config, "cpu")
    while not training.is_finished:
        training.step()
    found = evaluate(training.machine(0, {}))
    assert least < found.mean < 0.796  # the bound of these modes
