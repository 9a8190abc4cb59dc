"""A setting is a field: what is checked, searched, documented and offered on the command line comes from it."""

import doctest
import inspect
import math
import re

import numpy as np
import pytest

import offdiag as od
from offdiag import model_list
from offdiag.cli import model_options
from offdiag.models import fields

NEEDS_TORCH = {name for name, entry in model_list.MODELS.items() if entry.family == "nets"}


@fields.model
class Toy(od.EDLAE):
    """A model with a setting of its own.

    Example:
        >>> 1 + 1
        2
    """

    zest: float = fields.setting(0.5, low=0, high=1, search=fields.Range(0.1, 0.9), help="How bold it is. Very.")


def test_a_new_field_is_checked_searched_documented_and_in_the_signature():
    from offdiag.tuning import ranges

    with pytest.raises(od.OffdiagError, match=r"zest must be a number in \[0, 1\], received 2"):
        Toy(zest=2).fit(np.eye(3))
    assert ranges.searched(Toy) == ("zest", "dropout", "l2", "user_power")
    assert "zest: number in [0, 1]; default 0.5\n        How bold it is. Very." in Toy.__doc__
    assert Toy.__doc__.index("zest") < Toy.__doc__.index("dropout:") < Toy.__doc__.index("Example:")
    assert list(inspect.signature(Toy).parameters)[:3] == ["zest", "dropout", "l2"]
    assert list(Toy().get_params()) == list(inspect.signature(Toy).parameters)
    assert repr(Toy()).startswith("Toy(zest=0.5, dropout='auto'")
    assert Toy._valid_settings(Toy(zest=1))["zest"] == 1.0


@pytest.mark.parametrize("name", model_list.MODELS)
def test_every_setting_of_every_model_is_explained(name):
    model = model_list.model_class(name)
    assert list(fields.settings_of(model)) == list(model().get_params())
    for setting, known in fields.settings_of(model).items():
        assert known.help.endswith("."), (name, setting)
        assert 10 < len(known.summary) < 110, (name, setting)
        assert f"    {setting}: " in model.__doc__
        assert known.check(name, setting, known.default) == known.default
        assert known.values()


def wrong_values(known):
    """Values that the definition of a setting excludes."""
    if known.choices or isinstance(known.default, bool):
        return ["nonsense", 1.5, None]
    found = ["nonsense", [1], True, math.nan, math.inf]
    found += [] if known.default is None else [None]
    found += [] if known.auto else ["auto"]
    found += [2.5] if known.whole else []
    found += [known.low if known.above else known.low - 1] if math.isfinite(known.low) else []
    return found + ([known.high if known.below else known.high + 1] if math.isfinite(known.high) else [])


@pytest.mark.parametrize("name", model_list.MODELS)
def test_every_setting_of_every_model_is_checked_before_the_fit(name):
    if name in NEEDS_TORCH:
        pytest.importorskip("torch")
    model = model_list.model_class(name)
    for setting, known in fields.settings_of(model).items():
        for value in [] if known.takes else wrong_values(known):
            message = rf"^{setting}( of {name})? must be .*received {re.escape(repr(value))}"
            with pytest.raises(od.OffdiagError, match=message) as error:
                model(**{setting: value}).fit(np.eye(3))
            assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", model_list.MODELS)
def test_the_docstring_is_sentence_formula_use_and_an_example_that_runs(name):
    if name in NEEDS_TORCH:
        pytest.importorskip("torch")
    model = model_list.model_class(name)
    parts = model.__doc__.split("\n\n")
    assert parts[0].count("\n") == 0
    assert any(sign in parts[1] for sign in "=≤‖")
    assert parts[2].startswith("Use it ")
    ran = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(recurse=False).find(model, name, globs={}):
        assert test.examples
        ran.run(test)
    assert ran.summarize(verbose=False).failed == 0


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({"default": 0.5, "low": 0, "high": 1}, "number in [0, 1]"),
        ({"default": 0.5, "low": 0, "above": True, "high": 1, "below": True}, "number in (0, 1)"),
        ({"default": "auto", "low": 0, "auto": "1"}, 'number from 0 or "auto"'),
        ({"default": 1.0, "low": 0, "above": True}, "number above 0"),
        ({"default": None, "low": 1, "whole": True}, "whole number from 1 or None"),
        ({"default": 1, "low": 1, "high": 9, "whole": True}, "whole number from 1 to 9"),
        ({"default": True}, "True or False"),
        ({"default": "a", "choices": ("a", "b")}, '"a" or "b"'),
        ({"default": "a", "takes": "a word"}, "a word"),
    ],
)
def test_bounds_are_written_as_they_are_checked(known, text):
    assert fields.Setting(help="It is.", **known).values() == text


@pytest.mark.parametrize(
    ("known", "value", "message"),
    [
        ({"default": 0.5, "low": 0, "high": 1}, math.nan, r"x must be a number in \[0, 1\], received nan"),
        ({"default": 0.5, "low": 0, "high": 1}, "auto", r"x must be a number in \[0, 1\], received 'auto'"),
        (
            {"default": 0.5, "low": 0, "auto": False},
            "auto",
            "x of M must be a number, received 'auto'; M takes",
        ),
        ({"default": 1, "low": 1, "whole": True}, True, "x must be a whole number of at least 1, received True"),
        ({"default": 1, "low": 1, "high": 3, "whole": True}, 4, "x must be a whole number from 1 to 3, received 4"),
        ({"default": True}, 1, "x must be True or False, received 1"),
        ({"default": "a", "choices": ("a", "b")}, "auto", "x must be 'a' or 'b', received 'auto'"),
        ({"default": 1, "low": 1, "whole": True, "expected": "odd"}, 0, "x of M must be odd, received 0"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(known, value, message):
    with pytest.raises(od.OffdiagError, match=message):
        fields.Setting(help="It is.", **known).check("M", "x", value)


def test_ranges_follow_the_data():
    scale = fields.Scale(n_items=100, n_interactions=1000, mean_history=10.0, l2=60.0)
    assert fields.around_l2(30, 2)(scale) == fields.Range(2.0, 120.0, log=True)
    assert fields.up_to_items(16)(scale) == fields.Range(16, 50, log=True, whole=True)
    assert fields.up_to_items(100, 800)(scale) == fields.Range(50, 50, log=True, whole=True)


def test_no_setting_has_the_name_of_another_option():
    import typer

    from offdiag import cli

    fit = typer.main.get_command(cli.application()).commands["fit"]
    named = [parameter.name for parameter in fit.get_params(typer.Context(fit))]
    assert sorted(set(named)) == sorted(named)
    assert set(model_options.settings()) <= set(named)
