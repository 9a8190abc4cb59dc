"""Saving a fitted model to one file, and loading it memory-mapped. No pickle, no code, no user rows.

The file holds the class name and its settings, the item ids, the catalogue if there is one, the popularity, the weights
as they are in memory, and any metrics given (layout: ``offdiag.files.container``). Data that only `update` and
`forget` need goes into a second, encrypted file (``offdiag.living.state``).
"""

import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import model_list, stored_items, wording
from offdiag.data.columns import Roles
from offdiag.errors import EarlierFormatWarning, OffdiagError
from offdiag.files import atomic, container, keys, sealed, switch
from offdiag.progress import Progress

if TYPE_CHECKING:
    from offdiag.evaluation import Result
    from offdiag.models.recommender import Recommender


def save(
    model: "Recommender",
    path: str | os.PathLike[str],
    *,
    metrics: "Result | Mapping[str, Any] | None" = None,
    updatable: bool = False,
    key: keys.Source = None,
    rotate_key: bool = False,
    note: switch.Note | None = None,
    progress: Progress | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Write a fitted model to one file; an older file there is replaced once the new one is safely on disk.

    `metrics` (an evaluation's Result, or a dict) is kept in the header for `describe` and `offdiag info`.
    `updatable` also writes what `update` and `forget` need to `path` + ".living", encrypted with the key that
    `key` refers to (see ``offdiag.files.keys``); `rotate_key` switches to a new key and destroys the old one.
    `ready` is called once the new files are complete, before they replace the old; if it raises, the old files stay.
    """
    check_fileable(type(model))
    target = Path(os.path.realpath(path))  # follow a link instead of replacing it
    if target.is_dir():
        raise OffdiagError(f"expected a file name, received the folder {str(path)!r}: add a name such as model.od")
    if target.exists() and not target.is_file():
        raise OffdiagError(f"expected an ordinary file, received {str(path)!r}: choose another path")
    about, tensors = _contents(model, metrics)
    if not updatable:
        if rotate_key:
            raise OffdiagError("rotate_key is for a model that is saved with updatable=True; add it")
        with atomic.replacing(target, ready) as file:
            container.write(file, about, tensors, progress)
        switch.drop_living(target)
        return
    from offdiag.living import past, state

    past.check_changeable(model)
    known = keys.keys_of(key)
    mine, retire = _key_of(target, known, rotate_key)

    def write_living(file: IO[bytes], fingerprint: str) -> None:
        sealed.write(file, mine, *state.contents(model, mine, fingerprint), progress)

    switch.commit(
        target,
        lambda file: container.write(file, about, tensors, progress),
        write_living,
        key=mine,
        keys=known,
        note=dataclasses.replace(note or switch.Note(), retire=retire),
        ready=ready,
    )
    if model._past.first_format:
        model._past = dataclasses.replace(model._past, first_format=False)
        name = switch.living_path(target).name
        warnings.warn(state.REVEALED.format(living=name), EarlierFormatWarning, stacklevel=3)


def check_fileable(model: type["Recommender"]) -> None:
    """Raise if a model of this class is made of rows of users: a file would hold them."""
    if getattr(model, "keeps_rows", False):  # what is no model at all is refused later
        raise OffdiagError(
            f"{model.__name__} is made of the rows of users, which no model file holds; fit it where it is used, "
            "or save another model"
        )


def _key_of(target: Path, known: keys.Keys, rotate: bool) -> tuple[keys.Key, str | None]:
    """The key for the living state of this file, and the id of the key to destroy."""
    path = switch.living_path(target)
    before = sealed.key_id(path)
    if rotate:
        return known.rotated(), before
    if before is not None and known.has(before):
        return known.find(before, str(path)), None
    return known.new(), None


def load(path: str | os.PathLike[str], *, verify: bool | None = None, key: keys.Source = None) -> "Recommender":
    """The saved model, its weights mapped from the file read-only: they are paged in as they are used.

    verify=None checks what is quick (all of a file up to 256 MiB, a sample above), True every byte,
    False only the header and the length. While a model is in use, replace its file; never edit it in place.
    What `update` and `forget` need is read from the file next to it when they are first called, with the key
    that `key` refers to.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.EASE().fit(X).save("ease.od")
        >>> type(od.load("ease.od")).__name__
        'EASE'
    """
    from offdiag.weights import KINDS

    target = Path(os.path.realpath(path))
    switch.settle(target, lambda: keys.keys_of(key))
    with container.opened(path) as file:
        header = container.read_header(path, file)
        mapped = container.mapped(file, header)
        own = container.mapped(file, header, own=True) if "gram" in header.about else None
    container.verify(path, mapped, header, verify)
    about = header.about
    try:
        arrays = {name: container.array(mapped, header, name) for name in header.tensors}
        item_ids = stored_items.decode_ids(arrays, "item_ids", about["item_ids_dtype"], about["n_items"])
        popularity = arrays["popularity"].copy()
        model: Recommender = model_list.model_class(about["model"])(**about["params"])
        weights = KINDS[about["weights"]].from_arrays(
            {name.removeprefix("weights."): array for name, array in arrays.items() if name.startswith("weights.")},
            len(item_ids),
        )
        if popularity.shape != item_ids.shape or popularity.dtype != np.float64:
            raise ValueError("popularity does not fit the items")
        if not isinstance(about["settings"], dict):
            raise TypeError("settings are not a dict")
        learned = {name: value for name, value in about["learned"].items() if _is_learned(name)}
        learned |= {"settings_": about["settings"], "n_users_": about["n_users"], "columns_": _columns(about)}
        learned |= {"item_ids_": item_ids, "popularity_": popularity, "weights_": weights}
        for name, value in learned.items():
            setattr(model, name, value)
        model._catalogue = stored_items.decode_catalogue(arrays, about.get("catalogue"))
        model._groups = stored_items.decode_catalogue(arrays, about.get("groups"), "groups")
        model._features = stored_items.decode_features(arrays, about.get("features"))
        if own is not None:
            arrays |= {name: container.array(own, header, name) for name in header.tensors if name.startswith("gram.")}
        if own is not None or switch.living_path(target).exists():
            from offdiag.living import past, state

            if own is not None:
                model._past = state.read_first_format(model, about, arrays)
            else:
                model._past = past.Past(file=state.LivingFile(target, key, header.fingerprint))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OffdiagError) as error:
        raise OffdiagError(
            f"the model file {str(path)!r} is whole but makes no sense ({wording.one_line(error)}): save it again"
        ) from error
    return model


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of the header, JSON-ready, without reading the weights; checks the header and the length."""
    with container.opened(path) as file:
        header = container.read_header(path, file)
    tensors = {
        name: {"dtype": tensor.dtype.name, "shape": list(tensor.shape), "bytes": tensor.hi - tensor.lo}
        for name, tensor in header.tensors.items()
    }
    state_file = switch.living_path(Path(os.path.realpath(path)))
    living = None
    if state_file.exists():
        size = state_file.stat().st_size
        living = {"file": state_file.name, "bytes": size, "key": sealed.key_id(state_file)}
    return {**header.about, "bytes": header.size, "living": living, "tensors": tensors}


def _contents(
    model: "Recommender", metrics: "Result | Mapping[str, Any] | None"
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The JSON part and the tensors of a fitted model, wide types first so that all are aligned."""
    import offdiag

    name = type(model).__name__
    if name not in model_list.MODELS or type(model) is not model_list.model_class(name):
        raise OffdiagError(f"cannot save a {name}: expected one of {', '.join(model_list.MODELS)}")
    if getattr(model, "weights_", None) is None:
        raise OffdiagError(f"cannot save this {name} because it is not fitted: call fit(X) first")
    if metrics is not None and not isinstance(metrics, Mapping):
        metrics = metrics.to_dict()
    ids, ids_dtype = stored_items.encode_ids(np.asarray(model.item_ids_), "item_ids")
    products, products_about = stored_items.encode_catalogue(model.catalogue_)
    groups, groups_about = stored_items.encode_catalogue(model.groups_, "groups")
    features, features_about = stored_items.encode_features(model.item_features_)
    apart = ("weights_", "item_ids_", "popularity_", "settings_", "n_users_", "columns_")
    others = {key: value for key, value in vars(model).items() if _is_learned(key) and key not in apart}
    about = {
        "model": name,
        "params": _plain(model.get_params(), "parameter"),
        "settings": _plain(model.settings_, "setting"),
        "learned": _plain(others, "learned value", finite=False),
        "columns": None if model.columns_ is None else _plain(model.columns_.present(), "column"),
        "weights": model.weights_.kind,
        "n_users": _plain(model.n_users_, "n_users_"),
        "n_items": len(model.item_ids_),
        "item_ids_dtype": ids_dtype,
        "catalogue": products_about,
        **({} if groups_about is None else {"groups": groups_about}),
        "features": features_about,
        "metrics": None if metrics is None else _plain(dict(metrics), "metric", finite=False),
        "offdiag_version": offdiag.__version__,
        "format_version": container.VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    tensors = ids | products | groups | features | {"popularity": np.asarray(model.popularity_, dtype=np.float64)}
    tensors |= {f"weights.{key}": np.asarray(array) for key, array in model.weights_.arrays().items()}
    return about, dict(sorted(tensors.items(), key=lambda pair: -pair[1].dtype.itemsize))


def _columns(about: dict[str, Any]) -> Roles | None:
    """The columns of the table that was learned from; files of earlier versions have none."""
    names = about.get("columns")
    if names is None:
        return None
    if not all(isinstance(name, str | int) for name in names.values()):
        raise TypeError("the columns are not names or positions")
    return Roles(**names)


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _plain(value: Any, what: str, *, finite: bool = True) -> Any:
    """JSON values only, NumPy scalars unwrapped; nan and infinities become None where `finite` is False."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value) and not finite:
        return None
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and np.isfinite(value)):
        return value
    if dataclasses.is_dataclass(value) and hasattr(value, "factors"):  # a shrink of Spectral: parsed back from its text
        return str(value)
    if hasattr(value, "get_params") and type(value).__name__ in model_list.MODELS:  # a part of a Blend
        return {"model": type(value).__name__, "settings": _plain(value.get_params(), what, finite=finite)}
    if isinstance(value, type) and value.__name__ in model_list.MODELS:
        return {"model": value.__name__}
    if isinstance(value, Mapping):
        return {str(key): _plain(item, what, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, what, finite=finite) for item in value]
    raise OffdiagError(f"cannot save the {what} {value!r}: expected a finite number, text, true, false or none")
