"""Tasks in notebooks."""

from dataclasses import replace

import pytest

from pomp.tasks.catalog import TASKS, find_task


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_notebook_shows_name_sentence_variants_and_a_start(task):
    shown = task._repr_html_()
    assert f"<b>{task.name}</b> ({task.suite}): {task.summary}" in shown
    assert all(name in shown for name in task.variants)
    assert ("<img" in shown) == (task.starts is not None)


def test_a_notebook_shows_the_setting_that_was_chosen():
    shown = find_task("Harvester").configure("leaps", {"lag": "off"}, size=(6, 9))._repr_html_()
    assert "hprl, leaps (this one), paper" in shown
    assert "<td>option lag</td><td>False</td>" in shown
    assert "6x9" in shown


def test_texts_of_a_task_of_ones_own_are_escaped():
    shown = replace(find_task("Harvester"), summary="pick <b> & go")._repr_html_()
    assert "pick &lt;b&gt; &amp; go" in shown
