"""Help: families of options, flags as flags, hanging indents, one example per line, in 80 columns."""

import re

import pytest
import typer

from offdiag import cli
from offdiag.cli import help_page

COMMANDS = [*cli.COMMANDS, "reproduce", "reproduce steck2020", "reproduce steck2020 figure1", "reproduce pal2020"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_fits_into_80_columns(text_of, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    narrow = text_of(*name.split(), "--help")
    assert max(map(len, narrow.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "1000")
    assert narrow.split() == text_of(*name.split(), "--help").split(), "no word is broken"


def test_options_stand_in_their_families(text_of):
    out = text_of("tune", "--help")
    families = dict(re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", out, re.M))
    assert list(families) == [
        "Arguments", "Model", "Search", "Measuring", "Updates", "Data", "Cleaning", "Output", "Other", "Examples",
    ]  # fmt: skip
    for family, option in [
        ("Search", "--trials N"),
        ("Cleaning", "--where"),
        ("Data", "--user"),
        ("Output", "--json "),
    ]:
        assert option in families[family]
    settings = text_of("fit", "--help").split("Model:\n")[1]
    assert settings.index("Settings of full-rank models:") < settings.index("Data:\n")


def test_a_flag_has_no_placeholder_and_a_default_is_shown_once(text_of):
    out = text_of("tune", "--help")
    assert re.search(r"^  --json +Print", out, re.M)
    assert re.search(r"^  --header, --no-header +Whether", out, re.M)
    assert re.search(r"^  -o, --out MODEL +Fit", out, re.M)
    assert "Default: ndcg@100." in out
    assert "Default: 40." in out
    assert not re.search(r"Default: (None|False)|Default:[^.]*Default:", out)


def test_the_usage_names_what_is_required(text_of):
    assert text_of("fit", "--help").startswith("Usage: offdiag fit DATA --out MODEL [OPTIONS]\n")
    assert text_of("evaluate", "--help").startswith("Usage: offdiag evaluate DATA MODEL … [OPTIONS]\n")
    assert text_of("demo", "--help").startswith("Usage: offdiag demo [DATA] [OPTIONS]\n")


def test_examples_are_one_per_line_and_short_enough_to_copy(text_of):
    for name in cli.COMMANDS:
        examples = text_of(name, "--help").partition("\nExample")[2].splitlines()[1:]
        assert examples
        assert all(line.startswith(f"  offdiag {name}") and len(line) <= 80 for line in examples), name


def test_every_name_of_a_family_is_an_option_of_a_command():
    known = {"--install-completion", "--show-completion"}
    inner = [typer.main.get_command(cli.application())]
    while inner:
        command = inner.pop()
        inner += getattr(command, "commands", {}).values()
        known |= {name for one in command.get_params(typer.Context(command)) for name in one.opts}
    assert set(help_page.FAMILY) <= known | {"--help"}
