"""Progress reports of parallel tasks."""

import pytest

from offdiag.progress import of_tasks


def test_finished_tasks_are_a_share_of_the_stage():
    reported = []
    of_tasks(lambda *words: reported.append(words), "counting", 4)(1)
    of_tasks(lambda *words: reported.append(words), "counting", 4, 0.5, 0.5)(2)
    assert reported == [("counting", 0.25), ("counting", pytest.approx(0.75))]
    assert of_tasks(None, "counting", 4) is None
