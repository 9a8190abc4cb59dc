"""Saving a model as one safetensors file, and loading it memory-mapped. No pickle, no code, no user's rows.

Layout: 8 bytes (little-endian length of the header), the header (JSON, padded with spaces so that the data
starts at a multiple of 64), then the tensors without gaps, wide types first so that each is aligned. Any
safetensors reader opens it. It is written here, not by that library, because every byte is hashed on its way
out and because weights of several gigabytes are streamed from where they lie, never copied. Tensors:
`item_ids` (integers), or `item_ids.utf8` with `item_ids.offsets` (text); `popularity`; `weights.*`. The
header's `__metadata__` holds

    format, format_version   checked first, so that a newer file says so
    header_sha256            of the whole header, with these 64 digits themselves read as zeros
    chunk_sha256             of each MiB of tensor data, joined
    model                    JSON: class, settings, weights kind, n_users, metrics, versions, time of saving

Loading always checks the exact length of the file and the hash of its header. The data is checked in full up
to 256 MiB; of a larger file the ids, the popularity and 64 MiB spread over the rest are checked, so that a
service starts at once, and all of it on `verify=True`. The hashes find damage; they are no signature: a
forger could supply wrong numbers, but nothing in a file is ever executed.
"""

import errno
import hashlib
import importlib
import json
import mmap
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.progress import Progress

if TYPE_CHECKING:
    from offdiag.evaluation import Result

FORMAT = "offdiag"
VERSION = 1
CHUNK = 1 << 20
FULL_CHECK_BYTES = 256 << 20
SAMPLED_CHUNKS = 64
MAX_HEADER = 64 << 20

# The only classes a file can name. Imported when needed: persist must not pull in every model.
_MODELS = {
    "EASE": "offdiag.models.full_rank",
    "DLAE": "offdiag.models.full_rank",
    "EDLAE": "offdiag.models.full_rank",
    "Popularity": "offdiag.baselines.popularity",
}
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U64": "<u8", "I32": "<i4",
    "U32": "<u4", "I16": "<i2", "U16": "<u2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_NO_HASH = "0" * 64


@dataclass(frozen=True)
class _Tensor:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    lo: int  # offsets from the start of the data
    hi: int


@dataclass(frozen=True)
class _Header:
    about: dict[str, Any]
    tensors: dict[str, _Tensor]
    digests: list[str]  # one per chunk of data
    start: int  # of the data, from the start of the file
    size: int  # of the whole file


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    metrics: "Result | Mapping[str, Any] | None" = None,
    progress: Progress | None = None,
) -> None:
    """Write a fitted model to one file; an older file there is replaced once the new one is safely on disk.

    `metrics` (an evaluation's Result, or a dict) is kept in the header for `describe` and `offdiag info`.
    """
    target = Path(os.path.realpath(path))  # follow a link, rather than replace it
    if target.is_dir():
        raise OffdiagError(f"expected a file name, received the folder {str(path)!r}: add a name such as model.od")
    if target.exists() and not target.is_file():
        raise OffdiagError(f"expected an ordinary file, received {str(path)!r}: choose another path")
    about, tensors = _contents(model, metrics)
    with _replacing(target) as file:
        _write(file, about, tensors, progress)


def load(path: str | os.PathLike[str], *, verify: bool | None = None) -> Any:
    """The saved model, its weights mapped from the file read-only: they are paged in as they are used.

    verify=None checks as much as is quick (all of a file up to 256 MiB, a sample above), True every byte,
    False only the header and the length. While a model is in use, replace its file; never edit it in place.
    """
    with _opened(path) as file:
        header = _read_header(path, file)
        mapped = mmap.mmap(file.fileno(), header.size, access=mmap.ACCESS_READ)
    _verify(path, mapped, header, verify)
    about = header.about
    try:
        arrays = {name: _array(mapped, header, name) for name in header.tensors}
        item_ids = _decode_ids(arrays, about)
        popularity = arrays["popularity"].copy()
        model = _model_class(about["model"])(**about["params"])
        weights = _weights(about["weights"], arrays, len(item_ids))
        if popularity.shape != item_ids.shape or popularity.dtype != np.float64:
            raise ValueError("popularity does not fit the items")
        if not isinstance(about["settings"], dict):
            raise TypeError("settings are not a dict")
        learned = {name: value for name, value in about["learned"].items() if _is_learned(name)}
        learned |= {"settings_": about["settings"], "n_users_": about["n_users"]}
        learned |= {"item_ids_": item_ids, "popularity_": popularity, "weights_": weights}
        for name, value in learned.items():
            setattr(model, name, value)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise OffdiagError(
            f"the model file {str(path)!r} is whole but makes no sense ({_one_line(error)}): save it again"
        ) from error
    return model


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the header says, JSON-ready, without reading the weights; checks the header and the length."""
    with _opened(path) as file:
        header = _read_header(path, file)
    tensors = {
        name: {"dtype": tensor.dtype.name, "shape": list(tensor.shape), "bytes": tensor.hi - tensor.lo}
        for name, tensor in header.tensors.items()
    }
    return {**header.about, "bytes": header.size, "tensors": tensors}


# Writing


def _contents(
    model: Any, metrics: "Result | Mapping[str, Any] | None"
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The JSON part and the tensors of a fitted model, wide types first so that all are aligned."""
    import offdiag

    name = type(model).__name__
    if name not in _MODELS or type(model) is not _model_class(name):
        raise OffdiagError(f"cannot save a {name}: expected one of {', '.join(_MODELS)}")
    if getattr(model, "weights_", None) is None:
        raise OffdiagError(f"cannot save this {name} because it is not fitted: call fit(X) first")
    if metrics is not None and not isinstance(metrics, Mapping):
        metrics = metrics.to_dict()
    ids, ids_dtype = _encode_ids(np.asarray(model.item_ids_))
    apart = ("weights_", "item_ids_", "popularity_", "settings_", "n_users_")
    others = {key: value for key, value in vars(model).items() if _is_learned(key) and key not in apart}
    about = {
        "model": name,
        "params": _plain(model.get_params(), "parameter"),
        "settings": _plain(model.settings_, "setting"),
        "learned": _plain(others, "learned value", finite=False),
        "weights": model.weights_.kind,
        "n_users": _plain(model.n_users_, "n_users_"),
        "n_items": len(model.item_ids_),
        "item_ids_dtype": ids_dtype,
        "metrics": None if metrics is None else _plain(dict(metrics), "metric", finite=False),
        "offdiag_version": offdiag.__version__,
        "format_version": VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    tensors = ids | {"popularity": np.asarray(model.popularity_, dtype=np.float64)}
    tensors |= {f"weights.{key}": np.asarray(array) for key, array in model.weights_.arrays().items()}
    return about, dict(sorted(tensors.items(), key=lambda pair: -pair[1].dtype.itemsize))


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
    if isinstance(value, Mapping):
        return {str(key): _plain(item, what, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, what, finite=finite) for item in value]
    raise OffdiagError(f"cannot save the {what} {value!r}: expected a finite number, text, true, false or none")


def _encode_ids(ids: NDArray[Any]) -> tuple[dict[str, NDArray[Any]], str]:
    """Item ids as tensors, and the dtype that brings them back."""
    if ids.dtype.kind in "iu":
        return {"item_ids": ids}, ids.dtype.newbyteorder("=").name
    texts = ids.tolist()
    if ids.ndim != 1 or not all(isinstance(text, str) for text in texts):
        raise OffdiagError(f"cannot save item ids of type {ids.dtype}: expected whole numbers or text")
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    width = ids.dtype.itemsize // 4 if ids.dtype.kind == "U" else max(map(len, texts), default=1)
    utf8 = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return {"item_ids.offsets": offsets, "item_ids.utf8": utf8}, f"U{max(width, 1)}"


def _write(file: IO[bytes], about: dict[str, Any], tensors: dict[str, NDArray[Any]], progress: Progress | None) -> None:
    total = sum(array.nbytes for array in tensors.values())
    # Hashes have a fixed length, so the header is written twice: first to hold the place, last to be true.
    file.write(_header_bytes(about, tensors, [_NO_HASH] * -(-total // CHUNK)))
    digests: list[str] = []
    current, filled, done = hashlib.sha256(), 0, 0
    for array in tensors.values():
        for piece in _pieces(array):
            file.write(piece)
            rest = piece
            while len(rest):
                part, rest = rest[: CHUNK - filled], rest[CHUNK - filled :]
                current.update(part)
                filled, done = filled + len(part), done + len(part)
                if filled == CHUNK or done == total:
                    digests.append(current.hexdigest())
                    current, filled = hashlib.sha256(), 0
            if progress is not None:
                progress("save", done / total)
    file.seek(0)
    file.write(_header_bytes(about, tensors, digests))


def _pieces(array: NDArray[Any]) -> Iterator[memoryview]:
    """The bytes of an array in C order, little-endian, about a chunk at a time, without a full copy."""
    little = array.dtype.newbyteorder("<")
    blocks: Iterator[NDArray[Any]] = iter([array])
    if not array.flags.c_contiguous or array.dtype != little:
        rows = max(1, CHUNK // max(1, array[:1].nbytes))
        starts = range(0, len(array), rows)
        blocks = (np.ascontiguousarray(array[lo : lo + rows], dtype=little) for lo in starts)
    for block in blocks:
        flat = block.reshape(-1).view(np.uint8)
        for lo in range(0, flat.size, CHUNK):
            yield flat[lo : lo + CHUNK].data


def _header_bytes(about: dict[str, Any], tensors: dict[str, NDArray[Any]], digests: list[str]) -> bytes:
    """Length and header, its own hash filled in."""
    header: dict[str, Any] = {
        "__metadata__": {
            "format": FORMAT,
            "format_version": str(VERSION),
            "header_sha256": _NO_HASH,
            "model": json.dumps(about, allow_nan=False),
            "chunk_sha256": "".join(digests),
        }
    }
    end = 0
    for name, array in tensors.items():
        dtype = _NAMES.get(array.dtype.newbyteorder("<"))
        if dtype is None:
            raise OffdiagError(f"cannot save {name} of type {array.dtype}: expected one of {', '.join(_DTYPES)}")
        offsets = [end, end + array.nbytes]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(8 + len(text)) % 64)
    digest = hashlib.sha256(text).hexdigest().encode("ascii")
    text = text.replace(b'"header_sha256":"' + _NO_HASH.encode(), b'"header_sha256":"' + digest, 1)
    return len(text).to_bytes(8, "little") + text


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """A new file beside `target` that takes its place at the end, or vanishes if anything goes wrong."""
    temporary = target.with_name(f".offdiag-{secrets.token_hex(6)}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
        except BaseException:  # Ctrl-C too: never leave half a model behind
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise OffdiagError(f"cannot save to {str(target)!r}: {_advice(error, target)}") from error
    with suppress(OSError):  # make the new name itself durable, where the system can
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _advice(error: OSError, target: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full; free some space or choose another disk (nothing was changed)"
    if error.errno == errno.ENOENT:
        return f"the folder {str(target.parent)!r} does not exist; create it first"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "no permission to write there; choose another folder"
    return f"{error.strerror or _one_line(error)} (nothing was changed)"


# Reading


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    if os.path.isdir(path):
        raise OffdiagError(f"expected a model file, received the folder {str(path)!r}: name the file inside it")
    try:
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        raise OffdiagError(f"no model file at {str(path)!r}: check the path, or save the model first") from error
    except OSError as error:
        raise OffdiagError(f"cannot read {str(path)!r}: {error.strerror or _one_line(error)}") from error


def _read_header(path: str | os.PathLike[str], file: IO[bytes]) -> _Header:
    """Parse and check everything before the data; what follows may rely on it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    beginning = file.read(min(length, 4096))
    ours = f'"format":"{FORMAT}"'.encode() in beginning
    if not ours and not beginning.startswith(b'{"__metadata__":{"format'[: max(len(beginning), 1)]):
        safetensors = beginning.startswith(b"{") and size >= 8 + length
        raise _not_ours(path, "a safetensors file from elsewhere" if safetensors else "another kind of file")
    if length > MAX_HEADER:  # never read what is only claimed to be a header
        raise _damaged(path, f"its header claims {length:,} bytes")
    if size < 8 + length:
        raise _damaged(path, "it is cut off inside its header")
    text = beginning + file.read(length - len(beginning))
    try:
        header = json.loads(text.decode("ascii"))
        metadata = header.pop("__metadata__")
        if metadata["format"] != FORMAT:
            raise _not_ours(path, "a safetensors file from elsewhere")
        if (version := int(metadata["format_version"])) > VERSION:
            raise OffdiagError(
                f"{str(path)!r} was saved by a newer offdiag (file format {version}, this one reads up to "
                f"{VERSION}): upgrade offdiag, or save the model again with this version"
            )
        digest = metadata["header_sha256"].encode("ascii")
        blank = text.replace(b'"header_sha256":"' + digest, b'"header_sha256":"' + _NO_HASH.encode(), 1)
        if hashlib.sha256(blank).hexdigest().encode("ascii") != digest:
            raise _damaged(path, "its header does not match its checksum")
        tensors = _read_tensors(header)
        about = json.loads(metadata["model"])
        if not isinstance(about, dict):
            raise TypeError("the description is no object")
        hashes = metadata["chunk_sha256"]
        data = max((tensor.hi for tensor in tensors.values()), default=0)
        digests = [hashes[lo : lo + 64] for lo in range(0, len(hashes), 64)]
        if len(hashes) != 64 * -(-data // CHUNK):
            raise ValueError("the number of checksums does not fit the data")
    except OffdiagError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"its header cannot be read, {_one_line(error)}") from error
    if size != 8 + length + data:
        raise _damaged(path, f"expected {8 + length + data:,} bytes, received {size:,}")
    return _Header(about, tensors, digests, 8 + length, size)


def _read_tensors(header: dict[str, Any]) -> dict[str, _Tensor]:
    """Tensors that lie one after the other, each exactly as long as its type and shape say."""
    tensors: dict[str, _Tensor] = {}
    end = 0
    for name, entry in header.items():
        dtype, shape, (lo, hi) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in (lo, hi, *shape)):
            raise ValueError(f"{name} has a shape or offset that is no whole number")
        if lo != end or lo % dtype.itemsize or hi - lo != prod(shape) * dtype.itemsize:
            raise ValueError(f"{name} does not fit its place")
        end = hi
        tensors[name] = _Tensor(dtype, tuple(shape), lo, hi)
    return tensors


def _verify(path: str | os.PathLike[str], mapped: mmap.mmap, header: _Header, verify: bool | None) -> None:
    from concurrent.futures import ThreadPoolExecutor

    count = len(header.digests)
    chosen: set[int] = set()
    if verify or (verify is None and header.size <= FULL_CHECK_BYTES):
        chosen = set(range(count))
    elif verify is None:
        chosen = set(np.linspace(0, count - 1, SAMPLED_CHUNKS).astype(int).tolist())
        for name, tensor in header.tensors.items():
            if not name.startswith("weights."):
                chosen |= set(range(tensor.lo // CHUNK, -(-tensor.hi // CHUNK)))

    def sound(chunk: int) -> bool:
        lo = header.start + chunk * CHUNK
        with memoryview(mapped) as view, view[lo : lo + CHUNK] as part:
            return hashlib.sha256(part).hexdigest() == header.digests[chunk]

    if not chosen:
        return
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # hashing leaves the interpreter lock
        if not all(pool.map(sound, sorted(chosen))):
            raise _damaged(path, "its data does not match its checksums")


def _array(mapped: mmap.mmap, header: _Header, name: str) -> NDArray[Any]:
    """A read-only view of one tensor in the mapped file."""
    tensor = header.tensors[name]
    count = prod(tensor.shape)
    if count == 0:
        return np.empty(tensor.shape, tensor.dtype)
    return np.frombuffer(mapped, tensor.dtype, count, header.start + tensor.lo).reshape(tensor.shape)


def _decode_ids(tensors: dict[str, NDArray[Any]], about: dict[str, Any]) -> NDArray[Any]:
    if "item_ids" in tensors:
        ids = tensors["item_ids"].astype(about["item_ids_dtype"])  # a copy: ids are used on every call
    else:
        offsets, utf8 = tensors["item_ids.offsets"].tolist(), tensors["item_ids.utf8"].tobytes()
        if offsets[0] != 0 or offsets[-1] != len(utf8):
            raise ValueError("the item ids do not fit their offsets")
        pairs = pairwise(offsets)
        texts = [utf8[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairs]
        ids = np.array(texts, dtype=about["item_ids_dtype"])
    if ids.ndim != 1 or ids.dtype.kind not in "iuU" or len(ids) != about["n_items"]:
        raise ValueError("the item ids do not fit the model")
    return ids


def _model_class(name: str) -> Any:
    return getattr(importlib.import_module(_MODELS[name]), name)


def _weights(kind: str, arrays: dict[str, NDArray[Any]], m: int) -> Any:
    """Weights from mapped arrays, whose shapes are checked here because compiled loops trust them."""
    from offdiag.weights import KINDS

    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "packed": {"C": (m * (m + 1) // 2,), "scale": (m,), "diagonal": (m,)},
        "dense": {"B": (m, m)},
        "constant": {"scores": (m,)},
    }
    prefix = "weights."
    arrays = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    if {name: array.shape for name, array in arrays.items()} != shapes[kind]:
        raise ValueError(f"the {kind} weights do not fit {m} items")
    if any(array.dtype.kind != "f" for array in arrays.values()):
        raise TypeError(f"the {kind} weights are not real numbers")
    return KINDS[kind](**arrays)


def _not_ours(path: str | os.PathLike[str], kind: str) -> OffdiagError:
    return OffdiagError(f"{str(path)!r} is no offdiag model but {kind}: expected a file made by model.save")


def _damaged(path: str | os.PathLike[str], why: str) -> OffdiagError:
    return OffdiagError(f"the model file {str(path)!r} is damaged: {why}; copy or save it again")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
