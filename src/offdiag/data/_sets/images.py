"""Images for the theory papers: MNIST and CIFAR-10 from their standard files, or synthetic ones of the same shapes.

Nothing is downloaded. ``mnist`` reads the four IDX files, ``cifar10`` the binary version, each from a folder (or an
archive), at any depth, compressed with gzip or not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.data._sets import archive
from offdiag.errors import OffdiagError

Pixels = NDArray[np.uint8]
Images = tuple[Pixels, Pixels]  # pixels, labels

_IDX_UBYTE = 8  # third byte of an IDX file: the type of its entries
_RECORD = 1 + 3 * 32 * 32  # of CIFAR-10: the label, then the red, green and blue planes
_BLOCK = 512  # synthetic photographs that are computed at once: one takes 24 kB in several arrays
SHAPES = {"mnist": (28, 28), "cifar10": (32, 32, 3)}


def mnist(folder: str | Path, n: int | None = None, part: Literal["train", "test"] = "train") -> Images:
    """The first n images (n, 28, 28) and their labels (n,), both uint8; all of the part when n is None."""
    prefix = {"train": "train", "test": "t10k"}[checks.choice("part", part, ("train", "test"))]
    pixels, labels = _idx(folder, f"{prefix}-images", 3), _idx(folder, f"{prefix}-labels", 1)
    if pixels.shape[1:] != SHAPES["mnist"]:
        raise OffdiagError(f"MNIST images are 28×28, received {pixels.shape[1]}×{pixels.shape[2]}; give MNIST itself")
    if len(pixels) != len(labels):
        raise OffdiagError(
            f"expected as many labels as images, received {len(labels)} and {len(pixels)}; take both from one set"
        )
    return _first(pixels, labels, n, "MNIST")


def cifar10(folder: str | Path, n: int | None = None, part: Literal["train", "test"] = "train") -> Images:
    """The first n images (n, 32, 32, 3) and their labels (n,), both uint8; all of the part when n is None.

    The training files data_batch_1.bin … data_batch_5.bin are read in this order; missing ones are skipped.
    """
    checks.choice("part", part, ("train", "test"))
    names = ["test_batch.bin"] if part == "test" else [f"data_batch_{k}.bin" for k in range(1, 6)]
    found = _find(folder, names)
    records = []
    for name, content in found:
        values = np.frombuffer(content, dtype=np.uint8)
        if not len(values) or len(values) % _RECORD:
            raise OffdiagError(
                f"{name}: expected whole records of {_RECORD} bytes, received {len(values)} bytes; "
                "it is cut off or not the binary version of CIFAR-10, fetch it again"
            )
        records.append(values.reshape(-1, _RECORD))
    rows = np.concatenate(records)
    if rows[:, 0].max() > 9:
        raise OffdiagError(
            f"expected labels 0 to 9 in {', '.join(name for name, _ in found)}, received {rows[:, 0].max()}; "
            "give the binary version of CIFAR-10 (CIFAR-100 has another layout)"
        )
    planes = rows[:, 1:].reshape(-1, 3, 32, 32)
    return _first(planes.transpose(0, 2, 3, 1), rows[:, 0], n, "CIFAR-10")


def invented(n: int, kind: Literal["mnist", "cifar10"], seed: int = 0) -> Images:
    """Synthetic images from a seed: ten classes, with the shapes and labels of the real sets.

    "mnist": three strokes on black, those of the class bent, shifted and rotated. "cifar10": a smooth random field in
    correlated colours whose energy falls with frequency as 1/f³, about as steeply as in small photographs,
    on top of a field shared by all images of a class.
    """
    checks.choice("kind", kind, tuple(SHAPES))
    checks.whole("the number of images", n, 1)
    rng = np.random.default_rng(checks.whole("seed", seed))
    labels = rng.integers(0, 10, n).astype(np.uint8)
    # Classes look the same for every seed, so that two draws come from one population.
    classes = np.random.default_rng(10)
    return (_strokes if kind == "mnist" else _fields)(labels, rng, classes), labels


def _strokes(labels: Pixels, rng: np.random.Generator, classes: np.random.Generator) -> Pixels:
    control = classes.uniform(3, 24, (10, 3, 4, 2))  # class × stroke × control point × (row, column)
    u = np.linspace(0, 1, 40)
    bezier = np.stack([(1 - u) ** 3, 3 * u * (1 - u) ** 2, 3 * u**2 * (1 - u), u**3], axis=1)  # (40, 4)
    grid = np.stack(np.meshgrid(np.arange(28), np.arange(28), indexing="ij"), axis=-1).reshape(784, 2)
    out = np.empty((len(labels), 28, 28), np.uint8)
    for start in range(0, len(labels), 64):  # a block of images at a time: there are many distances
        some = labels[start : start + 64]
        points = control[some] + rng.normal(0, 1.0, (len(some), 3, 4, 2))
        angle, shift = rng.normal(0, 0.15, len(some)), rng.normal(0, 1.0, (len(some), 1, 2))
        turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(-1, 2, 2)
        path = (bezier @ points).reshape(len(some), -1, 2)  # (images, 120, 2)
        path = (path - 13.5) @ turn + 13.5 + shift
        squared = (grid**2).sum(-1) - 2 * path @ grid.T + (path**2).sum(-1, keepdims=True)
        width = rng.uniform(0.7, 1.2, (len(some), 1))
        ink = np.exp(-squared.min(axis=1) / (2 * width**2))
        out[start : start + 64] = np.rint(255 * np.clip(1.3 * ink, 0, 1)).reshape(-1, 28, 28)
    return out


def _fields(labels: Pixels, rng: np.random.Generator, classes: np.random.Generator) -> Pixels:
    own, shared = _smooth(rng, len(labels)), _smooth(classes, 10)
    brightness = 120 + 30 * rng.standard_normal((len(labels), 1, 1, 1))
    out = np.empty(own.shape, np.uint8)
    for start in range(0, len(labels), _BLOCK):
        some = slice(start, start + _BLOCK)
        values = brightness[some] + 38 * own[some] + 30 * shared[labels[some]]
        out[some] = np.rint(np.clip(values, 0, 255))
    return out


def _smooth(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """n fields (32, 32, 3) with energy ∝ 1/f³ and unit spread, mostly grey: the three colours share most of it."""
    frequency = np.hypot(np.fft.fftfreq(32)[:, None], np.fft.rfftfreq(32)[None, :])
    amplitude = np.power(frequency, -1.5, out=np.zeros_like(frequency), where=frequency > 0)
    field = np.empty((n, 32, 32, 3))
    for start in range(0, n, _BLOCK):
        some = field[start : start + _BLOCK]
        noise = rng.standard_normal(some.shape) @ np.array([[1, 1, 1], [0.3, 0, -0.3], [0.08, -0.16, 0.08]])
        waves = np.fft.rfft2(noise, axes=(1, 2)) * amplitude[None, :, :, None]
        some[:] = np.fft.irfft2(waves, s=(32, 32), axes=(1, 2))
    field /= field.std()
    return field


def _idx(folder: str | Path, stem: str, dimensions: int) -> Pixels:
    """An IDX file of bytes: two zeros, the type, the number of dimensions, a big-endian size for each, the entries."""
    name, content = _find(folder, [f"{stem}{mark}idx{dimensions}-ubyte" for mark in "-."])[0]
    head = 4 + 4 * dimensions
    magic = bytes([0, 0, _IDX_UBYTE, dimensions])
    if content[:4] != magic:
        raise OffdiagError(
            f"{name}: expected an IDX file that begins with {magic.hex()}, received {content[:4].hex() or 'nothing'}; "
            "give the file as it is published"
        )
    shape = np.frombuffer(content[4:head], dtype=">u4").astype(np.int64) if len(content) >= head else np.array([-1])
    if len(content) != head + shape.prod():
        wanted = (
            f"{head + shape.prod()} bytes for {'×'.join(map(str, shape))}" if shape.min() >= 0 else "a whole header"
        )
        raise OffdiagError(f"{name}: expected {wanted}, received {len(content)} bytes; it is truncated, fetch it again")
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)


def _find(folder: str | Path, names: list[str]) -> list[tuple[str, bytes]]:
    """Name and content of those files that are there, at least one."""
    if not Path(folder).exists():
        raise OffdiagError(f"expected a folder with the files, but there is no {str(folder)!r}; give the folder's path")
    found = dict(archive.files(Path(folder), lambda name: name in names))
    if not found:
        shown = f"{str(folder)!r} for {' or '.join(names)} (also with .gz)"
        raise OffdiagError(f"looked in {shown}, found none; give the folder that holds it")
    return [(name, found[name]) for name in names if name in found]


def _first(pixels: Pixels, labels: Pixels, n: int | None, name: str) -> Images:
    if n is not None:
        checks.whole(f"the number of images of {name}", n, 1, len(pixels))
    return np.array(pixels[:n], order="C"), np.array(labels[:n])  # writable copies
