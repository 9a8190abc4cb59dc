"""The commands and their help: complete, with examples, and documented."""

import inspect
import os
import re
import shutil
import subprocess
import sys
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
    learn, ask = "demo auto fit tune catalogue add-items compress", "recommend similar explain serve"
    check, keep = "evaluate info datasets", "update forget"
    assert " ".join(COMMANDS) == f"{learn} {ask} {check} {keep} warm-up reproduce"
    assert sorted(typer.main.get_command(cli.application()).commands) == sorted(COMMANDS)


def test_without_a_command_the_help_lists_them_in_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run()
    assert (code, err) == (0, "")
    assert all(f"\n  {name} " in out for name in COMMANDS)
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
    sections = dict(re.findall(r"^## (\w[\w -]*)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
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


def test_the_name_of_a_command_or_option_may_be_mistyped(fails):
    assert "no such command 'nonsense'; see offdiag --help" in fails("nonsense")
    assert "no such command 'evalute'; did you mean 'evaluate'?" in fails("evalute")
    assert "offdiag fit has no option --modle; did you mean --model?" in fails("fit", "--modle", "ease")
    assert "offdiag fit has no option --frobnicate; see offdiag fit --help" in fails("fit", "--frobnicate")
    assert "did you mean 'edlae'?" in fails("fit", "train.csv", "--model", "edlea", "--out", "x.od")
    assert "did you mean ndcg@10?" in fails("tune", "train.csv", "--metric", "ndgc@10")


def completed(words):
    """What the shell offers for the last of the words."""
    asked = {"_OFFDIAG_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    ran = subprocess.run(
        [sys.executable, "-m", "offdiag"], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    return ran.stdout.split()


@pytest.mark.slow
def test_the_shell_completes_commands_options_models_and_metrics():
    assert completed("offdiag re") == ["recommend", "reproduce"]
    assert completed("offdiag tune --tri") == ["--trials"]
    assert "--dropout" in completed("offdiag fit --dro")
    assert completed("offdiag fit --model low") == ["low-rank-edlae", "low-rank-dlae"]
    assert completed("offdiag tune --metric ndcg@1") == ["ndcg@10", "ndcg@100"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_completion_is_installed_for_bash(tmp_path):
    """By a shell, which is what the installation looks for."""
    install = f"{sys.executable} -m offdiag --install-completion; source .bashrc; complete -p offdiag"
    home = os.environ | {"HOME": str(tmp_path)}
    ran = subprocess.run(["bash", "-c", install], env=home, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "-F _offdiag_completion offdiag" in ran.stdout
