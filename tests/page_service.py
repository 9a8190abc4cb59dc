"""A real ``offdiag serve`` on a free port of this machine, with two small models on invented or hostile titles."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import offdiag as od

HOSTILE = (
    "<img src=x onerror=\"window.hacked='image'\">",
    "<script>window.hacked='script'</script>",
    "\"' onmouseover=\"window.hacked='attribute'\" x='",
    "javascript:window.hacked='link'",
)
N_ITEMS = 120


def make_models(folder: Path, *, updatable: bool = True) -> dict[str, str]:
    """Writes exact.od and sparse.od with whole numbers as ids and titles.csv; returns the titles by id."""
    inter = od.synthetic.catalogue(900, N_ITEMS, 18_000, communities=6, seed=3).interactions
    names = inter.item_ids.tolist()
    order = sorted(range(N_ITEMS), key=lambda i: (-inter.matrix[:, [i]].sum(), i))
    for text, i in zip(HOSTILE, order[10:], strict=False):
        names[i] = text
    names[order[20]] = "Évasion à l'île (heist)"
    numbered = od.Interactions(inter.matrix, inter.user_ids, 1000 + np.arange(N_ITEMS))
    split = od.split.strong(numbered, held_out=0.2, seed=0)
    for name, model in {"exact": od.EDLAE(), "sparse": od.SparseEDLAE(neighbours=10)}.items():
        model.fit(split.train)
        measured = od.evaluate(model, split.test, metrics=["recall@20", "recall@50", "ndcg@100"])
        model.save(folder / f"{name}.od", metrics=measured, updatable=updatable and name == "exact")
    known = dict(
        zip(split.train.item_ids.tolist(), (names[i - 1000] for i in split.train.item_ids.tolist()), strict=True)
    )
    rows = "".join(f'{item},"{title.replace(chr(34), chr(34) * 2)}"\n' for item, title in known.items())
    (folder / "titles.csv").write_text("item,title\n" + rows, encoding="utf-8")
    return {str(item): title for item, title in known.items()}


class Service:
    """The process; ``stop`` ends it, ``start`` begins it again at the same port."""

    def __init__(self, folder: Path, *models: str, env: dict[str, str] | None = None, options: tuple[str, ...] = ()):
        self.folder, self.models, self.options, self.port = folder, models, options, 0
        self.env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | (env or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> "Service":
        log = self.folder / f"serve-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "offdiag", "serve", *self.models, "--titles", "titles.csv", *self.options]
        with log.open("wb") as told:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)], cwd=self.folder, env=self.env, stdout=told, stderr=told
            )
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text()):
                self.port = int(found[1])
                return self
            time.sleep(0.05)
        self.stop(signal.SIGKILL)
        raise AssertionError(f"the service did not start: {log.read_text()}")

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None
