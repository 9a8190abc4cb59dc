"""Text from templates: HTML pages in one shell, and Markdown documents."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offdiag.measured import decide, with_verdict
from offdiag.plots import svg

if TYPE_CHECKING:
    from jinja2 import Environment


def html(place: str | Path, template: str, **words: Any) -> str:
    """A self-contained page from a package's folder `templates`, or from a folder; everything in `words` is escaped."""
    from markupsafe import Markup

    import offdiag as od

    styles = Markup(svg.palette(":root") + svg.CSS)
    page = _environment(place, escape=True).get_template(template)
    return page.render(version=od.__version__, figure_styles=styles, **words)


def markdown(place: str | Path, template: str, **words: Any) -> str:
    """A document from a package's folder `templates`, or from a folder; nothing is escaped."""
    # People and git read Markdown as text, where HTML entities would be noise.
    return _environment(place, escape=False).get_template(template).render(**words)


@cache
def _environment(place: str | Path, *, escape: bool) -> Environment:
    """Templates of a package or folder; missing ones are looked up in offdiag.report and offdiag.papers.

    Pages extend the shell of offdiag.report, the documents of benchmarks include parts of those of offdiag.papers.
    """
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

    own = FileSystemLoader(place) if isinstance(place, Path) else PackageLoader(place)
    environment = Environment(
        loader=ChoiceLoader([own, PackageLoader("offdiag.report"), PackageLoader("offdiag.papers")]),
        autoescape=escape,
        undefined=StrictUndefined,  # a misspelt name is an error, not an empty cell
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(paired=with_verdict, decide=decide)  # the one rule, for every table
    environment.filters.update(
        fmt=lambda value, spec: format(value, spec),
        is_finite=math.isfinite,
        cell=lambda value: str(value).replace("|", "\\|"),  # a bar would begin another cell of a Markdown table
        flow=lambda text: " ".join(text.split()),  # a paragraph wrapped in the template is one line of the document
    )
    return environment
