"""The commands and their help: complete, with examples, and documented."""

import inspect
import re
from pathlib import Path

import pytest
import typer

import offdiag as od
from offdiag import cli
from offdiag.cli import inputs

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [*cli.COMMANDS, "reproduce"]


def command_options():
    for name, command in typer.main.get_command(cli.application()).commands.items():
        inner = [command]
        while inner:  # a command, or a group of commands such as reproduce
            command = inner.pop()
            inner += getattr(command, "commands", {}).values()
            for parameter in command.get_params(typer.Context(command)):
                yield name, parameter


def test_no_command_is_missing_or_new():
    names = "demo fit tune catalogue compress update forget serve evaluate recommend similar explain info datasets"
    assert " ".join(COMMANDS) == f"{names} reproduce"
    assert sorted(typer.main.get_command(cli.application()).commands) == sorted(COMMANDS)


def test_without_a_command_the_help_lists_them_in_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run()
    assert (code, err) == (0, "")
    assert all(f"│ {name} " in out for name in COMMANDS)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(text_of, name):
    out = text_of(name, "--help")
    assert "Example" in out
    assert f"offdiag {name}" in out


def test_every_option_has_a_help_text():
    for name, parameter in command_options():
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_every_command_and_option_is_documented():
    text = (ROOT / "docs" / "cli.md").read_text()
    sections = dict(re.findall(r"^## (\w[\w ]*)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    shared = set(inspect.signature(inputs.Columns).parameters)
    for name, parameter in command_options():
        if parameter.param_type_name == "argument" or "--help" in parameter.opts:
            continue
        where = sections["Reading data"] if parameter.name in shared else sections[name]
        for option in [*parameter.opts, *parameter.secondary_opts]:
            assert f"`{option}`" in where, f"{name} {option} is not in docs/cli.md"
    assert set(COMMANDS) <= set(sections)


def test_the_version_is_printed(text_of):
    assert text_of("--version") == f"offdiag {od.__version__}\n"


def test_an_unknown_command_is_one_line(fails):
    assert "nonsense" in fails("nonsense")
