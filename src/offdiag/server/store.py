"""The served models, and how a new file replaces an old one while requests are being answered."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from offdiag.errors import OffdiagError
from offdiag.files import container
from offdiag.server import titles as titling
from offdiag.server.file_lease import FileBusy, Lease, is_read_only, private_copy
from offdiag.server.limits import Refusal
from offdiag.server.model import ATTEMPTS, ServedModel, Stamp, stamp, stamp_of

Say = Callable[[str], None]
PATIENCE = 3000  # × 10 ms that requests in flight may take to release an old file; a writer waits for 45 s


class Store:
    """Names and models. A request gets its model once and keeps it to the end; a reload only rebinds the name."""

    def __init__(
        self,
        models: Sequence[str | Path] | Mapping[str, str | Path],
        titles: str | Path | None = None,
        title_columns: tuple[str, str] = ("item", "title"),
        say: Say = lambda text: None,
        count: Callable[[bool], None] = lambda done: None,
        hold: bool = False,
    ) -> None:
        """``hold``: served files never change under a request, from the very start; call ``rescue`` on SIGIO."""
        self._paths = by_name(models)
        self._titles_path = None if titles is None else Path(titles)
        self._title_columns = title_columns
        self._say, self._count = say, count
        self._busy = threading.Lock()  # one reload at a time
        self._titles_stamp: Stamp | None = None
        self._titles = self._read_titles()
        self._hold = hold
        self._leases: dict[str, Lease | None] = {}
        self._refused: dict[str, Stamp | None] = {}  # files that could not be loaded
        # None: the file is being overwritten, and there was no space for a copy
        self._served: dict[str, ServedModel | None] = {}
        for name, path in self._paths.items():
            try:
                served, self._leases[name] = self._load(name, path)
            except FileBusy:
                served = self._load_copy(name, path)
            self._served[name] = served
            _prepare(served)
            if missing := self._without_titles(served):
                say(f"model {served.name}: {missing}")

    @property
    def names(self) -> list[str]:
        return list(self._served)

    @property
    def models(self) -> list[ServedModel]:
        return [served for served in self._served.values() if served is not None]

    @property
    def problems(self) -> list[str]:
        """Recent loading failures, without paths, because anyone may read them."""
        gone = {name for name, served in self._served.items() if served is None}
        kept = "the one before is still in use"
        return [f"the file of {name} cannot be loaded; {kept}" for name in self._refused if name not in gone] + [
            f"the file of {name} is being overwritten; it is not served until that has ended" for name in gone
        ]

    def get(self, name: str | None) -> ServedModel:
        if name is None:
            name = next(iter(self._served))
        elif name not in self._served:
            raise Refusal(404, f"there is no model {name[:100]!r}; there are {', '.join(map(repr, self.names))}")
        served = self._served[name]
        if served is None:
            raise Refusal(503, f"the file of the model {name!r} is being overwritten; try again later", retry_after="5")
        return served

    def card(self, name: str | None) -> dict[str, Any]:
        """The answer of ``/model``."""
        return {**self.get(name).card, "models": self.names}

    def reload(self, force: bool = False) -> int:
        """Load files that have changed on disk and return their number. On any error the old model stays in use."""
        with self._busy:
            changed = self._reload_titles()
            for name, path in self._paths.items():
                now = stamp(path)
                served = self._served[name]
                same = served is not None and now == served.stamp
                if same:
                    self._refused.pop(name, None)
                known_bad = name in self._refused and self._refused[name] == now
                if force or changed or not (same or known_bad):
                    changed += self._reload_model(name, path, now)
            return changed

    def rescue(self) -> None:
        """Serve models whose files are about to be overwritten from copies, then let the writers continue."""
        with self._busy:
            for name, lease in self._leases.items():
                if lease is not None and lease.wanted_back:
                    self._let_go(name, lease)
                    lease.release()

    def _let_go(self, name: str, lease: Lease) -> None:
        """Stop using the file. Without space for a copy this model pauses; the rest of the service continues."""
        old = self._served[name]
        if old is None:
            return
        path, known = old.path, old.stamp
        fresh: ServedModel | None = None
        outcome = "served from a copy until the new one is whole"
        try:
            fresh = self._copy(name, path, lease.file, known)
        except (OffdiagError, OSError, MemoryError) as error:
            self._count(False)
            outcome = f"not served until the new one is whole ({error})"
        self._served = {**self._served, name: fresh}
        used = weakref.ref(old)
        del old
        for _ in range(PATIENCE):  # wait for requests that still use the old mapping
            if used() is None:
                break
            time.sleep(0.01)
        self._say(f"model {name}: its file is being overwritten; {outcome}")

    def _copy(self, name: str, path: Path, file: int, known: Stamp) -> ServedModel:
        with private_copy(file, path.name) as copy:
            fresh = ServedModel(name, copy, self._titles)
        fresh.path, fresh.stamp = path, known
        return fresh

    def _load(self, name: str, path: Path) -> tuple[ServedModel, Lease | None]:
        """With ``hold``, the file cannot change while it is in use: leased, copied, or on a read-only file system."""
        if not self._hold:
            return ServedModel(name, path, self._titles), None
        for _ in range(ATTEMPTS):
            now = stamp(path)
            lease = Lease(path, now)
            try:  # a leaked lease would block every writer
                if not lease.held and not is_read_only(path):
                    return self._load_copy(name, path), lease
                fresh = ServedModel(name, path, self._titles)
                if fresh.stamp == now:
                    return fresh, lease
            except BaseException:
                lease.release()
                raise
            lease.release()
        raise _unstable(path)

    def _load_copy(self, name: str, path: Path) -> ServedModel:
        """A model from a copy, made while its file did not change."""
        for _ in range(ATTEMPTS):
            with container.opened(path) as file:
                known = stamp_of(os.fstat(file.fileno()))
                fresh = self._copy(name, path, file.fileno(), known)
                if stamp_of(os.fstat(file.fileno())) == known:
                    return fresh
        raise _unstable(path)

    def _reload_model(self, name: str, path: Path, now: Stamp | None) -> int:
        try:
            fresh, lease = self._load(name, path)
        except Exception as error:  # no error may stop the watcher
            known = name in self._refused
            busy = isinstance(error, FileBusy)
            self._refused[name] = None if busy else now  # a file being written is retried even if its stamp is the same
            if not (known and busy):
                self._report_failure(f"model {name}: {error}")
            return 0
        self._refused.pop(name, None)
        self._served = {**self._served, name: fresh}  # one assignment: a request sees the old or the new model
        old, self._leases[name] = self._leases.get(name), lease
        if old is not None:
            old.release()
        _prepare(fresh)
        self._count(True)
        missing = self._without_titles(fresh)
        loaded = f"loaded {fresh.n_items:,} items, {fresh.about['fingerprint'][:12]}"
        self._say(f"model {name}: {loaded}" + (f"; {missing}" if missing else ""))
        return 1

    def _reload_titles(self) -> int:
        if self._titles_path is None:
            return 0
        now = stamp(self._titles_path)
        if now == self._titles_stamp:  # the file that was read last, valid or not
            return 0
        try:
            self._titles = self._read_titles()
        except (OffdiagError, OSError) as error:
            self._refused["titles"] = now
            self._report_failure(f"titles: {error}")
            return 0
        self._refused.pop("titles", None)
        self._count(True)
        return 1

    def _read_titles(self) -> dict[str, str] | None:
        if self._titles_path is None:
            return None
        self._titles_stamp = stamp(self._titles_path)
        return titling.read(self._titles_path, *self._title_columns)

    def watch(self, every: float) -> Callable[[], None]:
        """Check for new files at this interval, in seconds; returns a function that stops it.

        This thread does not delay the exit of the process, because a disk may hang forever.
        """
        stop = threading.Event()

        def look() -> None:
            while not stop.wait(every):
                self.reload()

        threading.Thread(target=look, name="offdiag reload", daemon=True).start()
        return stop.set

    def _without_titles(self, served: ServedModel) -> str:
        """Items without a title are shown by id; if no item has one, the table likely belongs to another catalogue."""
        if not served.untitled or (self._titles is None and "title" not in served.card["columns"]):
            return ""
        text = f"{served.n_items - served.untitled:,} of {served.n_items:,} items have a title"
        if served.untitled < served.n_items or self._titles is None:
            return text
        other = next(iter(self._titles), "")
        return f"{text}; the ids of items are like {str(served.ids[0])!r}, those of the titles like {other!r}"

    def _report_failure(self, text: str) -> None:
        self._count(False)
        self._say(f"{text}; the one before is still in use")


def _prepare(served: ServedModel) -> None:
    """While it already answers; the thread keeps the model, so that its file is not let go meanwhile."""
    threading.Thread(target=served.prepare, name="offdiag prepare", daemon=True).start()


def _unstable(path: Path) -> OffdiagError:
    return OffdiagError(f"the model file {str(path)!r} changes faster than it can be read; try again later")


def by_name(models: Sequence[str | Path] | Mapping[str, str | Path]) -> dict[str, Path]:
    """Models by name: as given, or the file name without its extension; a repeated name gets a number."""
    if isinstance(models, Mapping):
        paths: dict[str, Path] = {str(name): Path(path) for name, path in models.items()}
    else:
        paths = {}
        for path in map(Path, models):
            name, again = path.stem or path.name, 1
            while name in paths:
                again += 1
                name = f"{path.stem}-{again}"
            paths[name] = path
    if not paths:
        raise OffdiagError("expected at least one model file, received none; name one written by `offdiag fit`")
    files = [path.resolve() for path in paths.values()]
    for at, file in enumerate(files):
        if file in files[:at]:
            raise OffdiagError(f"expected different model files, received {str(file)!r} twice; name each once")
    return paths
