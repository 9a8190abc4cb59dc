"""What several commands do with their results: check where files go, and describe models, fits and metrics."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from offdiag import wording
from offdiag.cli import console
from offdiag.data import sql
from offdiag.errors import OffdiagError
from offdiag.files import atomic, keys, switch
from offdiag.report.writer import setting_text

if TYPE_CHECKING:
    import polars as pl

    from offdiag import Result
    from offdiag.list_files import Written
    from offdiag.recommendations import Recommendations

Out = Annotated[str | None, Option(metavar="FILE", help="Write the lists to FILE: .parquet, .csv, .jsonl or .ndjson.")]
RowsPerFile = Annotated[
    int | None, Option(metavar="N", min=1, help="With --out: a folder of files of N rows each, part-00000, …")
]
To = Annotated[str | None, Option("--to", metavar="csv|jsonl", help="Print lines for programs; csv in a pipe.")]
STREAMS = ("csv", "jsonl")


def check_file(out: str, data: str, option: str = "out", example: str = "model.od") -> None:
    """Raise now, not after a long fit, if the file cannot be written."""
    folder = Path(out).resolve().parent
    if Path(out).is_dir():
        raise OffdiagError(f"--{option} takes a file name, received the folder {out!r}; add a name such as {example}")
    if not folder.is_dir():
        raise OffdiagError(f"cannot save to {out!r}: the folder {str(folder)!r} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise OffdiagError(f"cannot save to {out!r}: no permission to write in {str(folder)!r}; choose another folder")
    file = sql.file_of(data) or data
    if os.path.exists(out) and os.path.exists(file) and os.path.samefile(out, file):
        raise OffdiagError(f"--{option} is the file {str(file)!r} itself, which is read; choose another name")


def check_folder(folder: Path, *files: str) -> None:
    """Raise now, not after the work, if the files cannot be written to the folder."""
    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not place.is_dir():
        raise OffdiagError(f"--out takes a folder, received {str(folder)!r}, but {str(place)!r} is a file")
    if not os.access(place, os.W_OK):
        raise OffdiagError(f"cannot write to {str(folder)!r}: no permission in {str(place)!r}; choose another folder")
    for file in files:
        atomic.check_replaceable(folder / file)


def saved_text(target: str) -> str:
    return f"{target} ({wording.size(os.path.getsize(target))})"


def settings_list(settings: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> list[str]:
    """Settings as used; those chosen by the library are marked."""
    marks = {name: " (auto)" for name, value in (params or {}).items() if value == "auto"}
    return [f"{name} {setting_text(v)}{marks.get(name, '')}" for name, v in settings.items()] or ["none"]


def outcome(learned: Mapping[str, Any]) -> dict[str, Any]:
    """How an iterative fit ended, from the attributes of the model or from its file; empty for other models."""
    if "best_epoch_" in learned:
        return {"epochs": learned["epochs_"], "best_epoch": learned["best_epoch_"]}
    if "gap_" in learned:
        return {name: learned[f"{name}_"] for name in ("objective", "gap")}
    if "stopped_" not in learned:
        return {}
    found = {name: learned[f"{name}_"] for name in ("objective", "stopped")}
    found["iterations"] = len(learned["objectives_"]) - 1  # the first is the starting value
    if learned.get("kkt_residual_") is not None:
        found["kkt_residual"] = learned["kkt_residual_"]
    return found


def outcome_pairs(found: Mapping[str, Any]) -> dict[str, str]:
    """The same as text."""
    if "epochs" in found:
        return {"epochs": f"{found['epochs']:,}, the weights are those after {found['best_epoch']:,}"}
    if "gap" in found:
        return {"objective": f"{found['objective']:.8g}, within {found['gap']:.2g} of its minimum in every column"}
    if not found:
        return {}
    ended = "stopped" if found["stopped"] == "iterations" else found["stopped"]
    after = "" if ended in ("closed form", "full rank") else f" after {found['iterations']:,} iterations"
    pairs = {"objective": f"{found['objective']:.8g}, {ended}{after}"}
    if "kkt_residual" in found:
        pairs["KKT residual"] = f"{found['kkt_residual']:.3g}"
    return pairs


def key_pairs(out: str, key_file: str | None) -> dict[str, str]:
    """Where the key of a model's living state is kept; a lost key cannot be replaced."""
    if not switch.living_path(Path(os.path.realpath(out))).exists():
        return {}
    known = keys.keys_of(key_file)
    where = f"the variable {keys.KEY}" if known.given else str(known.path)
    return {"key": f"in {where}: keep a copy, apart from the model"}


def show_metrics(text: str, metrics: dict[str, Any]) -> None:
    """A table from `Result.to_dict()`, which is also stored in model files."""
    console.say(f"\n{text}:")
    rows = [[name, number(mean), number(metrics["sem"].get(name))] for name, mean in metrics["mean"].items()]
    console.show_table(["metric", ">mean", ">± standard error"], rows)


def mean_and_error(result: Result, metric: str) -> tuple[str, str]:
    """Two cells of a table; a metric of all users together has no error."""
    return number(result.mean[metric]), number(result.sem[metric])


def number(value: float | None, digits: str = ".4f") -> str:
    return "-" if value is None or value != value else format(value, digits)


@dataclass(frozen=True)
class Destination:
    """Where results go that are not shown as a table: a file, a folder of files, or stdout."""

    path: str | None
    rows_per_file: int | None
    stream: str  # csv or jsonl, if there is no path

    def write(self, batches: Iterable[Recommendations], work: console.Work, n_lists: int) -> Written:
        from offdiag import list_files

        if self.path is None:
            sys.stdout.flush()
            return list_files.to_stream(batches, sys.stdout.buffer, f".{self.stream}")
        return list_files.write(batches, self.path, rows_per_file=self.rows_per_file, progress=work, n_lists=n_lists)

    def write_table(self, table: pl.DataFrame) -> None:
        """Write a table that is small enough to be in memory."""
        from offdiag import list_files

        if self.path is None:
            sys.stdout.flush()
            list_files.FORMATS[f".{self.stream}"](sys.stdout.buffer).write(table)
            return
        with atomic.replacing(Path(self.path)) as file:
            writer = list_files.FORMATS[list_files.format_of(self.path)](file)
            writer.write(table)
            writer.close()
        console.message(f"wrote {table.height:,} rows to {saved_text(self.path)}")


def destination(
    out: str | None, rows_per_file: int | None, to: str | None, json: bool, *, reads: Sequence[str]
) -> Destination | None:
    """Where the lists go; None if they are shown as a table, which only a terminal gets, or as one JSON document."""
    from offdiag import list_files

    if to is not None and to not in STREAMS:
        raise OffdiagError(f"--to must be csv or jsonl, received {to!r}")
    if sum([out is not None, to is not None, json]) > 1:
        raise OffdiagError("--out, --to and --json exclude each other; the name of --out decides its format")
    if rows_per_file is not None and out is None:
        raise OffdiagError("--rows-per-file divides what --out writes; add --out FILE")
    if out is not None:
        list_files.format_of(out)
        if rows_per_file is None:
            for data in reads:
                check_file(out, data, example="top.parquet")
        return Destination(out, rows_per_file, "")
    if json or (to is None and sys.stdout.isatty()):
        return None
    return Destination(None, None, to or "csv")


def note_lists(done: Written) -> None:
    """What was written, and which lists are not what was asked for, on stderr."""
    if done.files:
        size = sum(os.path.getsize(file) for file in done.files)
        where = done.files[0] if len(done.files) == 1 else f"{len(done.files):,} files in {Path(done.files[0]).parent}"
        console.message(
            f"wrote {done.n_lists:,} lists, {done.n_rows:,} rows, to {where} ({wording.size(size)}) "
            f"in {wording.seconds(done.seconds)}"
        )
    if done.n_popular:
        console.note(f"lists of popular items, because nothing in their histories is known: {done.n_popular:,}")
    if done.n_short:
        console.note(f"lists shorter than asked for, because no more items were left: {done.n_short:,}")


def show_lists(table: pl.DataFrame) -> None:
    """The long table of lists, with few digits."""
    import polars as pl

    if "reason_title" in table.columns:  # the id as well would be too wide
        named = table["reason_title"].fill_null(table["reason"].cast(pl.String))
        table = table.with_columns(named.alias("reason")).drop("reason_title").rename({"reason_share": "share"})
    digits = {"score": ".4f", "reason_share": ".0%", "share": ".0%"}
    if table.schema.get("price") == pl.Float64:
        digits["price"] = ",.2f"
    heads = [f">{name}" if name in (*digits, "rank") else name for name in table.columns]
    formats = [digits.get(name, "") for name in table.columns]
    rows = [["" if x is None else format(x, how) for x, how in zip(row, formats, strict=True)] for row in table.rows()]
    console.show_table(heads, rows)
