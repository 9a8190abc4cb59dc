"""One line for each model, and everything that takes names from it."""

import ast
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import offdiag as od
from offdiag import baselines, model_list, models
from offdiag.models.recommender import Recommender


def test_every_model_of_the_library_is_in_the_list():
    found = set()
    for package in (models, baselines):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(import_module(module.name)).items():
                if inspect.isclass(value) and issubclass(value, Recommender) and value.__module__ == module.name:
                    found.add((module.name, name))
    bases = {"Recommender", "Neural", "Regression", "FullRankModel", "LowRankModel"}
    shared = bases | {name for _, name in found if name.startswith("_")}
    public = {(module, name) for module, name in found if name not in shared}
    assert public == {(entry.module, name) for name, entry in model_list.MODELS.items()}


def test_names_on_the_command_line_are_distinct_and_lead_to_the_class():
    assert len(model_list.COMMANDS) == len(model_list.MODELS)
    for command, name in model_list.COMMANDS.items():
        assert command == command.lower()
        assert model_list.model_class(name) is getattr(od, name)


@pytest.mark.parametrize("name", model_list.MODELS)
def test_a_model_declares_what_it_can_do(name):
    model = model_list.model_class(name)
    fit = inspect.signature(model.fit).parameters
    assert model.stops_early == ("validation" in fit)
    assert model.checkpoints_in_folder == ("checkpoint" in fit and not model.stops_early)
    assert model.learns_from_gram == hasattr(model, "fit_gram")
    assert model.starts_warm == (hasattr(model, "fit_gram") and "start" in inspect.signature(model.fit_gram).parameters)
    assert model.can_change == (model._follow is not Recommender._follow)
    assert model.has_propensity == hasattr(model, "with_propensity")
    assert not model.l2_of_ease or "l2" in model().get_params()


def test_the_stub_names_what_the_package_has():
    stub = ast.parse((Path(od.__file__).parent / "__init__.pyi").read_text())
    imported = {alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported | {"__version__"} == set(od.__all__)
