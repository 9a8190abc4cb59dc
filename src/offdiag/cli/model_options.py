"""Which model `offdiag fit` and `offdiag tune` fit, with which settings, and how the fit ended."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from offdiag import model_list, wording
from offdiag.cli import commands, console
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag.models.fields import Setting
    from offdiag.models.recommender import Recommender

DEFAULT = "edlae"
SEVERAL = "several"
PANELS = {
    SEVERAL: "Settings of several kinds of models",
    "full rank": "Settings of full-rank models",
    "sparse": "Settings of sparse models",
    "order": "Settings of models that know the order",
    "low rank": "Settings of low-rank models",
    "blends": "Settings of blends",
    "baselines": "Settings of baselines",
    "nets": "Settings of nets (need torch)",
}


def model_class(name: str) -> type[Recommender]:
    if name.lower() not in model_list.COMMANDS:
        near = wording.suggestion(name, model_list.COMMANDS)
        raise OffdiagError(f"--model takes {', '.join(model_list.COMMANDS)}, received {name!r}{near}")
    cls: type[Recommender] = model_list.model_class(model_list.COMMANDS[name.lower()])
    return cls


def new_model(name: str, given: Mapping[str, Any], seed: int) -> Recommender:
    """The model of that name with the given settings (not None), checked; the seed is for models that have one."""
    model = model_class(name)()
    known = model.get_params()
    settings = {setting: value for setting, value in given.items() if value is not None}
    for setting in settings:
        if setting not in known:
            has = ", ".join(map(option_name, known))
            raise OffdiagError(f"{name} does not take {option_name(setting)}; it takes {has or 'no settings'}")
    model.set_params(**settings, **({"seed": seed} if "seed" in known else {}))
    model._valid_settings()
    return model


def option_name(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


@functools.cache
def settings() -> dict[str, dict[str, Setting]]:
    """Every setting of any model: its definition in each model that has it, by the model's command-line name."""
    from offdiag.models.fields import settings_of

    found: dict[str, dict[str, Setting]] = {}
    for command in sorted(model_list.COMMANDS, key=lambda name: name != DEFAULT):
        for setting, known in settings_of(model_class(command)).items():
            if setting != "seed":  # --seed also chooses the held-out users
                found.setdefault(setting, {})[command] = known
    return found


class SettingsCommand(commands.Command):
    """A command that also has an option for every setting of any model.

    They are created when the command is used: they import all models, which would slow down other commands.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        return [*_options(), *super().get_params(ctx)]

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = {name: _value(name, ctx.params.pop(name)) for name in settings()}
        return super().invoke(ctx)


@functools.cache
def _options() -> list[Any]:
    """One option for each setting, built by Typer from a signature."""
    made = []
    for name, models in sorted(settings().items(), key=lambda item: list(PANELS).index(_family(item[1]))):
        panel = _family(models)
        about = typer.Option(
            option_name(name), help=help_text(models, panel), metavar=_metavar(models), rich_help_panel=PANELS[panel]
        )
        made.append(commands.parameter(name, _type(models) | None, None, about))

    def command(**given: Any) -> None: ...

    app = typer.Typer(add_completion=False)
    app.command()(commands.with_parameters(command, made))
    return list(typer.main.get_command(app).params)


def help_text(models: Mapping[str, Setting], panel: str = SEVERAL) -> str:
    """The first sentence about a setting and the models that have it; several if it has several meanings."""
    meanings: dict[str, list[str]] = {}
    for command, known in models.items():
        meanings.setdefault(known.summary, []).append(command)
    parts = [(text, [name for name in _by_family(commands) if name != panel]) for text, commands in meanings.items()]
    return " ".join(f"{text} ({', '.join(names)})." if names else f"{text}." for text, names in parts)


def _by_family(commands: Iterable[str]) -> list[str]:
    """The same models, with a complete family replaced by its name."""
    left = list(commands)
    for family in PANELS:
        members = {entry.command for entry in model_list.MODELS.values() if entry.family == family}
        if members and members <= set(left):
            left = list(dict.fromkeys(family if command in members else command for command in left))
    return left


def _family(models: Iterable[str]) -> str:
    families = {model_list.MODELS[model_list.COMMANDS[command]].family for command in models}
    return families.pop() if len(families) == 1 else SEVERAL


def _type(models: Mapping[str, Setting]) -> Any:
    """Text if one of the models also takes a word."""
    kinds = {_kind(known) for known in models.values()}
    return kinds.pop() if len(kinds) == 1 else str


def _kind(known: Setting) -> type:
    if known.takes or known.choices or known.auto or known.size or isinstance(known.default, bool):
        return str
    return int if known.whole else float


def _metavar(models: Mapping[str, Setting]) -> str:
    """The placeholder for the value, with the widest bounds of all models."""
    kinds = list(models.values())
    first = min(kinds, key=lambda known: (known.low, known.above))
    if first.choices:
        return "|".join(first.choices)
    if any(known.takes for known in kinds):
        return "TEXT"
    if isinstance(first.default, bool):
        return "true|false"
    sign = ">" if first.above else "≥"
    number = f"{'(' if first.above else '['}{first.low:g},{first.high:g}{')' if first.below else ']'}"
    if first.high == math.inf:
        number = f"{'SIZE' if first.size else 'WHOLE' if first.whole else ''}{sign}{first.low:g}"
    return number + ("|auto" if any(known.auto for known in kinds) else "")


def _value(name: str, value: Any) -> Any:
    """The typed value of a setting, converted for the model."""
    from offdiag.cli import compress

    kinds = settings()[name].values()
    if not isinstance(value, str) or any(known.choices for known in kinds):
        return value
    if any(known.size for known in kinds):
        return value if value == "auto" else compress.bytes_of(value, option_name(name))
    if any(known.takes or known.whole or isinstance(known.default, bool) for known in kinds):
        return typed(value)
    return console.number_or_auto(option_name(name)[2:], value)


def check_named(name: str, settings: Iterable[str]) -> None:
    """Check that the model of that name has all of the settings."""
    known = [setting for setting in model_class(name)().get_params() if setting != "seed"]
    for setting in settings:
        if setting not in known:
            raise OffdiagError(f"{name} has no setting {setting!r}; it has {', '.join(known) or 'none'}")


def assignments(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """name=value, repeatable: the names with underscores, the values as typed."""
    out: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name or not value.strip():
            raise OffdiagError(f"--{option} takes NAME=VALUE, for example l2=100, received {text!r}")
        if name == "seed":
            raise OffdiagError(f"--{option} does not take the seed; use --seed")
        if name in out:
            raise OffdiagError(f"--{option} {name} was given twice; give it once")
        out[name] = value.strip()
    return out


def typed(text: str) -> Any:
    """A value as typed: a whole number, a number, true or false, or a word such as auto."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def with_more(given: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    """The settings from the options and from --set; a setting may be given only once."""
    for name in more:
        if given.get(name) is not None:
            raise OffdiagError(f"{name} was given by {option_name(name)} and by --set; give it once")
    return {**given, **{name: typed(value) for name, value in more.items()}}
