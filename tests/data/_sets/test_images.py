"""MNIST and CIFAR-10 from their files: bytes written here are read back as images; broken files give a clear error."""

import gzip
import struct
import tarfile

import numpy as np
import pytest

from offdiag.data._sets import images
from offdiag.errors import OffdiagError


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def some(kind, n, seed=0):
    """Pixels and labels."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, *images.SHAPES[kind]), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8)


def write_mnist(folder, pixels, labels, *, prefix="train", mark="-", packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in ((f"{prefix}-images{mark}idx3-ubyte", pixels), (f"{prefix}-labels{mark}idx1-ubyte", labels)):
        content = idx(array)
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)


def cifar_record(label, picture):
    """Label, then all red, all green, all blue, each row by row."""
    planes = [int(picture[row, column, colour]) for colour in range(3) for row in range(32) for column in range(32)]
    return bytes([label, *planes])


def write_cifar(path, pixels, labels):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(cifar_record(int(k), p) for k, p in zip(labels, pixels, strict=True)))


@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("part", "prefix"), [("train", "train"), ("test", "t10k")])
def test_mnist_is_read_as_it_was_written(tmp_path, mark, packed, part, prefix):
    pixels, labels = some("mnist", 7)
    write_mnist(tmp_path / "deep" / "down", pixels, labels, prefix=prefix, mark=mark, packed=packed)
    got, classes = images.mnist(tmp_path, part=part)
    assert got.dtype == classes.dtype == np.uint8
    np.testing.assert_array_equal(got, pixels)
    np.testing.assert_array_equal(classes, labels)
    np.testing.assert_array_equal(images.mnist(str(tmp_path), 3, part)[0], pixels[:3])
    got[0] = 0  # the caller's own copy


def test_cifar10_batches_are_read_in_order(tmp_path):
    one, two, test = some("cifar10", 3, 1), some("cifar10", 2, 2), some("cifar10", 4, 3)
    write_cifar(tmp_path / "cifar-10-batches-bin" / "data_batch_2.bin", *two)
    write_cifar(tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin", *one)
    write_cifar(tmp_path / "cifar-10-batches-bin" / "test_batch.bin", *test)
    pixels, labels = images.cifar10(tmp_path)
    np.testing.assert_array_equal(pixels, np.concatenate([one[0], two[0]]))
    np.testing.assert_array_equal(labels, np.concatenate([one[1], two[1]]))
    np.testing.assert_array_equal(images.cifar10(tmp_path, part="test")[0], test[0])
    np.testing.assert_array_equal(images.cifar10(tmp_path, 4)[1], labels[:4])


def test_cifar10_is_read_from_its_published_archive(tmp_path):
    pixels, labels = some("cifar10", 2)
    write_cifar(tmp_path / "x" / "data_batch_1.bin", pixels, labels)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "x" / "data_batch_1.bin", "cifar-10-batches-bin/data_batch_1.bin")
    np.testing.assert_array_equal(images.cifar10(tmp_path / "cifar-10-binary.tar.gz")[0], pixels)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (images.mnist, r"train-images-idx3-ubyte or train-images\.idx3-ubyte.*\.gz"),
        (images.cifar10, r"data_batch_1\.bin or .*data_batch_5\.bin"),
    ],
)
def test_a_missing_file_and_an_unknown_part_are_named(read, words, tmp_path):
    with pytest.raises(OffdiagError, match=words):
        read(tmp_path)
    with pytest.raises(OffdiagError, match="no '.*nowhere'"):
        read(tmp_path / "nowhere")
    with pytest.raises(OffdiagError, match="received 'valid'"):
        read(tmp_path, part="valid")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda b: b[:-1], "truncated"),
        (lambda b: b + b"x", "received"),
        (lambda b: b[:9], "whole header"),
        (lambda b: b"", "received nothing"),
        (lambda b: b"\x00\x00\x0d\x03" + b[4:], "begins with 00000803, received 00000d03"),
        (lambda b: b"\x00\x00\x08\x01" + b[4:], "received 00000801"),
    ],
)
def test_a_broken_idx_file_is_refused_with_the_reason(tmp_path, spoil, message):
    write_mnist(tmp_path, *some("mnist", 2))
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(OffdiagError, match=message) as error:
        images.mnist(tmp_path)
    assert "train-images" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_cut_off_gzip_file_is_refused(tmp_path):
    write_mnist(tmp_path, *some("mnist", 2), packed=True)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(OffdiagError, match="fetch it again"):
        images.mnist(tmp_path)


def test_images_of_another_size_or_without_labels_are_refused(tmp_path):
    write_mnist(tmp_path, np.zeros((3, 20, 20), np.uint8), np.zeros(3, np.uint8))
    with pytest.raises(OffdiagError, match="28×28, received 20×20"):
        images.mnist(tmp_path)
    write_mnist(tmp_path, *some("mnist", 3))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(2, np.uint8)))
    with pytest.raises(OffdiagError, match="received 2 and 3"):
        images.mnist(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x01" * 3072, b"\x01" * 3074])
def test_a_cifar10_file_of_broken_length_is_refused(tmp_path, content):
    (tmp_path / "data_batch_1.bin").write_bytes(content)
    with pytest.raises(OffdiagError, match=f"data_batch_1.bin: expected whole records of 3073 bytes.*{len(content)}"):
        images.cifar10(tmp_path)


def test_labels_above_nine_are_refused_as_another_data_set(tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(bytes([37]) + b"\x00" * 3072)
    with pytest.raises(OffdiagError, match="labels 0 to 9.*received 37"):
        images.cifar10(tmp_path, part="test")


@pytest.mark.parametrize("n", [0, -1, 2.5, True, 9])
def test_an_impossible_number_of_images_is_refused(tmp_path, n):
    write_mnist(tmp_path, *some("mnist", 8))
    write_cifar(tmp_path / "data_batch_1.bin", *some("cifar10", 8))
    for read in (images.mnist, images.cifar10):
        with pytest.raises(OffdiagError, match="from 1 to 8"):
            read(tmp_path, n)


@pytest.mark.parametrize(("kind", "shape"), images.SHAPES.items())
def test_invented_images_have_ten_classes_and_a_falling_spectrum(kind, shape):
    pixels, labels = images.invented(400, kind, seed=1)
    assert pixels.shape == (400, *shape)
    assert pixels.dtype == labels.dtype == np.uint8
    assert set(labels) == set(range(10))
    again = images.invented(400, kind, seed=1)
    np.testing.assert_array_equal(pixels, again[0])
    assert (images.invented(400, kind, seed=2)[0] != pixels).any()
    assert [part.shape for part in images.invented(1, kind, seed=3)] == [(1, *shape), (1,)]
    X = pixels.reshape(400, -1) / 255
    eigenvalues = np.linalg.svd(X, compute_uv=False) ** 2
    assert eigenvalues[0] > 10 * eigenvalues[4]  # as in real images, a few directions hold most of the variance
    assert eigenvalues[4] > 10 * eigenvalues[80]
    assert eigenvalues[200] > 0
    # Classes are meaningful, also for another seed: the nearest class mean is right more often than chance.
    other, truth = images.invented(200, kind, seed=7)
    means = np.stack([X[labels == k].mean(axis=0) for k in range(10)])
    nearest = np.argmin(((other.reshape(200, 1, -1) / 255 - means) ** 2).sum(axis=-1), axis=1)
    assert (nearest == truth).mean() > 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((5, "cats"), "received 'cats'"), ((0, "mnist"), "at least 1")]
    + [((2, "mnist", seed), "seed must be a whole number of at least 0") for seed in (-1, "a", None, 1.5, True)],
)
def test_wrong_arguments_for_invented_images_are_refused(arguments, words):
    with pytest.raises(OffdiagError, match=words):
        images.invented(*arguments)
