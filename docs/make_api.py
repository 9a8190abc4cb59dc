"""Writes what is made from the code: docs/api.md, docs/api/, docs/cli-reference.md, the settings in docs/cli.md, and
src/offdiag/__init__.pyi.

Run from the root of the tree: python -m docs.make_api
"""

from itertools import groupby
from pathlib import Path

import offdiag as od
from docs import api_pages, cli_page
from offdiag.cli import model_options

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- settings: made by docs/make_api.py -->", "<!-- end of settings -->"


def files() -> dict[Path, str]:
    """The contents of every file that is made."""
    guide = ROOT / "docs" / "cli.md"
    before, _, rest = guide.read_text().partition(BEGIN)
    return {
        ROOT / "docs" / "api.md": api_pages.index(),
        **{ROOT / "docs" / "api" / f"{page.file}.md": page.text() for page in api_pages.pages()},
        ROOT / "docs" / "cli-reference.md": cli_page.text(),
        guide: f"{before}{BEGIN}\n{settings_table()}{END}{rest.partition(END)[2]}",
        ROOT / "src" / "offdiag" / "__init__.pyi": stub(),
    }


def settings_table() -> str:
    """The options of settings of `offdiag fit`."""
    rows = ["| setting | takes | meaning |", "|---|---|---|"]
    for name, known in model_options.settings().items():
        takes = {one.values().replace('"', "`"): None for one in known.values()}
        about = model_options.help_text(known).replace("|", "\\|")
        rows.append(f"| `{model_options.option_name(name)}` | {'; '.join(takes)} | {about} |")
    return "\n".join(rows) + "\n"


def import_line(module: str, names: list[str]) -> str:
    """As ruff formats it."""
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= 120 else f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def stub() -> str:
    homes = sorted((module, name) for name, module in od._HOMES.items())
    homes += [(module.rpartition(".")[0], name) for name, module in od._MODULES.items()]
    lines = [
        import_line(module, [name for _, name in group])
        for module, group in groupby(sorted(homes), key=lambda home: home[0])
    ]
    names = "".join(f'    "{name}",\n' for name in od.__all__)
    return (
        '"""The public names, for editors and mypy; made by docs/make_api.py."""\n\n'
        + "\n".join(lines)
        + f"\n\n__version__: str\n__all__ = [  # noqa: RUF022 - the order of dir(offdiag)\n{names}]\n"
    )


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
