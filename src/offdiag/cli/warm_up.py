"""`offdiag warm-up`: compile every loop ahead, for containers and first impressions."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offdiag import model_list, wording
from offdiag._kernels import machine_code
from offdiag.cli import console
from offdiag.cli.commands import Json
from offdiag.weights import byte_copy

if TYPE_CHECKING:
    from offdiag import Interactions
    from offdiag.models.recommender import Recommender

EXAMPLES = ("offdiag warm-up",)
USERS, ITEMS = 120, 30
SMALL = {"iterations": 2, "rank": 4, "neighbours": 8, "max_iterations": 5}  # settings that make a fit short
PRECISIONS = ("float32", "float64")


def warm_up(json: Json = False) -> None:
    """Compile everything now, instead of at first use.

    Fits every kind of model to a little synthetic data and asks it everything, in both precisions; the machine code is
    kept for later runs by numba. Code for one kind of processor is not used by another.
    """
    machine_code.announce(None)
    begin = time.perf_counter()
    with console.working() as work, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about data this small
        for stage in run():
            work.begin(f"compiling: {stage}")
    about: dict[str, Any] = {
        "compiled": len(machine_code.compilations),
        "loaded": sum(map(len, machine_code.signatures().values())) - len(machine_code.compilations),
        "folder": machine_code.folder(),
        "kept": machine_code.is_kept(),
        "seconds": time.perf_counter() - begin,
    }
    if json:
        console.show_json(about)
        return
    nowhere = "nowhere: no folder is writable, so every run compiles again; set NUMBA_CACHE_DIR"
    console.show_pairs(
        {
            "compiled": f"{about['compiled']:,} loops for the types of practice",
            "ready": f"{about['loaded']:,} were compiled before",
            "kept in": about["folder"] if about["kept"] else nowhere,
            "time": wording.seconds(about["seconds"]),
        }
    )


def run(models: Iterable[str] = model_list.MODELS) -> Iterator[str]:
    """Everything that compiles a loop, stage by stage: the name of a stage comes before its work."""
    import offdiag as od

    yield "lists from large catalogues"
    many = od.synthetic.interactions(USERS, byte_copy.FEWEST_ITEMS, 20 * USERS, seed=0)
    for precision, storage in product(PRECISIONS, ("packed", "dense")):
        large = od.EASE().set_params(l2=1.0, storage=storage, dtype=precision).fit(many)
        large.weights_.prepare_lists()
        large.recommend(many, k=5)
    counts = od.synthetic.catalogue(USERS, ITEMS, 8 * USERS, communities=3, seed=0).interactions
    matrix = counts.matrix.copy()
    matrix.data[::3] = 4.5  # no counts: summed in double precision
    ratings = od.Interactions(matrix, counts.user_ids, counts.item_ids, counts.times)
    for name in models:
        if model_list.MODELS[name].family == "nets":  # not compiled by us
            continue
        cls = model_list.model_class(name)
        for precision in PRECISIONS:
            yield f"{name}, {precision}"
            for data in (counts, ratings):
                for model in fitted(cls, precision, data):
                    ask(model, data)
                change(model, data)


def fitted(cls: type[Recommender], precision: str, data: Interactions) -> Iterator[Recommender]:
    """A model fitted in every way that it knows, the usual one last."""
    import offdiag as od

    if "products" in cls().get_params():
        yield new_model(cls, precision).set_params(products="data").fit(data)
    if cls.learns_from_gram:
        learner: Any = new_model(cls, precision)
        yield learner.fit_gram(od.gram(data), item_ids=data.item_ids)
    yield new_model(cls, precision).fit(data)


def new_model(cls: type[Recommender], precision: str) -> Recommender:
    """A model with few iterations."""
    model = cls()
    known = model.get_params()
    settings: dict[str, Any] = {name: value for name, value in SMALL.items() if known.get(name)}
    model.set_params(**settings, **({"dtype": precision} if "dtype" in known else {}))
    return model


def ask(model: Recommender, data: Interactions) -> None:
    """Questions to a model in memory and to the same model mapped from a file."""
    import offdiag as od
    from offdiag import persist

    split = od.split.last_out(data) if model.knows_order else od.split.weak(data, held_out=0.3)
    with tempfile.TemporaryDirectory() as name:
        asked = [model]
        if not model.keeps_rows:
            persist.save(model, Path(name, "model.od"))
            asked.append(od.load(Path(name, "model.od")))
        for one in asked:
            item, other, third = one.item_ids_[:3].tolist()
            one.recommend(data, k=5)
            one.recommend([[item], []], k=5, allow=one.item_ids_[:9].tolist(), reasons=one.weights_.linear)
            one.predict(data)
            one.similar([item], k=5)
            od.evaluate(one, split.test, ["ndcg@10", "coverage@10"])
            if one.weights_.linear:
                one.explain([[item, other]], third).to_dicts()  # with the ranks, computed when read


def change(model: Recommender, data: Interactions) -> None:
    """Rerank its lists, compress it, forget a user and add them again with a new item."""
    import numpy as np

    import offdiag as od

    if model.weights_.linear:
        od.Reranked(model, diversity=0.5).recommend(data, k=5)
    if model.weights_.linear and not model.weights_.compound:
        for storage in ("float32", "float16", "int8"):
            ask(od.compress(model, keep=5, storage=storage), data)
        od.compress(model, max_bytes=2000)
    if type(model).can_change:
        leaving = data.select_users(slice(3, 5))
        model.forget(leaving, prove=True)
        if model.knows_order:
            model.update(leaving)
            return
        names = leaving.item_ids.copy()
        names[leaving.matrix.indices[0]] = "new"
        order = np.argsort(names)
        model.update(od.Interactions(leaving.matrix[:, order], leaving.user_ids, names[order]))
