"""Progress reports of parallel tasks."""

import inspect
import io
import logging

import pytest

import offdiag as od
from offdiag import progress
from offdiag.progress import Bar, of_tasks, reporter


def test_finished_tasks_are_a_share_of_the_stage():
    reported = []
    of_tasks(lambda *words: reported.append(words), "counting", 4)(1)
    of_tasks(lambda *words: reported.append(words), "counting", 4, 0.5, 0.5)(2)
    assert reported == [("counting", 0.25), ("counting", pytest.approx(0.75))]
    assert of_tasks(None, "counting", 4) is None


class Screen(io.StringIO):
    encoding = "utf-8"

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def test_a_bar_on_a_terminal_is_redrawn_and_finished_stages_stay(monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", 0)
    screen = Screen(terminal=True)
    bar = Bar(screen)
    for stage, fraction in (("count", 0.0), ("count · 5 left", 0.5), ("count", 1.0), ("solve", 0.2), ("rank", 1.0)):
        bar(stage, fraction)
    lines = [line.split("\r")[-1] for line in screen.getvalue().strip("\n").split("\n")]
    assert [line.split()[0] for line in lines] == ["count", "solve", "rank"]
    assert "100%" in lines[0]
    assert "20%" in lines[1]
    assert lines[0].count("█") == progress.WIDTH
    assert "50%" in screen.getvalue()


def test_a_bar_in_a_pipe_is_one_line_per_finished_stage():
    screen = Screen(terminal=False)
    bar = Bar(screen)
    for fraction in (0.1, 0.5, 1.0):
        bar("count", fraction)
    assert screen.getvalue().count("count") == screen.getvalue().count("\n") == 1


def test_progress_is_a_function_a_bar_or_nothing(capsys):
    assert reporter(None) is None
    assert reporter(False) is None
    assert reporter(print) is print
    with pytest.raises(od.OffdiagError, match="True or a function"):
        reporter("yes")
    X = od.synthetic.interactions(100, 20, 500, seed=0)
    od.EASE(l2=1.0).fit(X, progress=True)
    assert "100%" in capsys.readouterr().err


def test_stages_are_logged_where_the_logger_is_enabled(caplog):
    X = od.synthetic.interactions(100, 20, 500, seed=0)
    model = od.EASE(l2=1.0).fit(X)
    with caplog.at_level(logging.INFO, logger="offdiag"):
        od.EASE(l2=1.0).fit(X)
        split = od.split.strong(X, held_out=20)
        od.evaluate(model, split.test, "ndcg@5")
    assert {record.name for record in caplog.records} == {"offdiag"}
    assert any(record.message.startswith("evaluate: done after") for record in caplog.records)


def takes_progress():
    """Every public function and method with an argument called progress."""
    for name in od.__all__:
        value = getattr(od, name)
        members = vars(value) if inspect.isclass(value) or inspect.ismodule(value) else {name: value}
        listed = getattr(value, "__all__", None)
        for title, one in members.items():
            if not inspect.isfunction(one) or (listed is not None and title not in listed):
                continue
            found = inspect.signature(one).parameters.get("progress")
            imported = listed is None and inspect.ismodule(value) and one.__module__ != value.__name__
            if found and not imported and not title.startswith("_"):
                yield pytest.param(one, found, id=f"{name}.{one.__name__}")


@pytest.mark.parametrize(("function", "parameter"), [*takes_progress()])
def test_every_public_function_takes_true_for_a_bar(function, parameter):
    assert "bool" in str(parameter.annotation)
    raises = "raise NotImplementedError" in inspect.getsource(function)
    assert raises or "reporter(progress)" in inspect.getsource(function)
