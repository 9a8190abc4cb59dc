"""Sealed files: contents are read back, anything else is rejected, and no key is ever shown."""

import io
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offdiag.errors import OffdiagError
from offdiag.files import keys, sealed
from offdiag.files.keys import Key


@pytest.fixture
def known(tmp_path):
    return keys.keys_of(tmp_path / "keys")


@pytest.fixture
def key(known):
    found = known.new()
    known.keep(found)
    return found


def seal(path, key, about, tensors):
    with open(path, "wb") as file:
        sealed.write(file, key, about, tensors)
    return path


@pytest.mark.parametrize("size", [0, 1, 1000, sealed.CHUNK - 200, sealed.CHUNK, 3 * sealed.CHUNK + 17])
def test_sealed_tensors_are_read_back_and_writable(tmp_path, known, key, size):
    tensors = {"a": np.arange(size // 8, dtype=np.float64), "b": np.full(size % 8, 7, dtype=np.uint8)}
    path = seal(tmp_path / "s", key, {"x": [1, "ä"]}, tensors)
    about, arrays, used = sealed.read(path, known, "it")
    assert about == {"x": [1, "ä"]}
    assert used == key
    for name, array in tensors.items():
        assert np.array_equal(arrays[name], array)
        assert arrays[name].flags.writeable
    assert sealed.key_id(path) == key.id


def test_two_files_of_the_same_content_have_nothing_in_common(tmp_path, key):
    content = {"a": np.zeros(10_000)}
    one, other = (seal(tmp_path / name, key, {}, content).read_bytes() for name in ("one", "other"))
    start = len(sealed.MAGIC) + 8
    assert one[:start] == other[:start]
    same = np.frombuffer(one[start:], np.uint8) == np.frombuffer(other[start:], np.uint8)
    assert same[sealed.HEADER - start :].mean() < 0.02  # 1 in 256 by chance
    assert bytes(64) not in one[sealed.HEADER :]


@settings(max_examples=60)
@given(st.data())
def test_a_file_changed_in_any_bit_or_length_is_refused(data):
    key = Key.random()
    file = io.BytesIO()
    sealed.write(file, key, {"x": 1}, {"a": np.arange(300_000, dtype=np.float64)})  # three chunks
    content = file.getvalue()
    body = content[sealed.HEADER :]
    whole = sealed.CHUNK + sealed.TAG
    kind = data.draw(st.sampled_from(["bit", "cut", "more", "swap", "drop"]))
    if kind == "bit":
        at = data.draw(st.integers(0, len(content) - 1))
        broken = content[:at] + bytes([content[at] ^ (1 << data.draw(st.integers(0, 7)))]) + content[at + 1 :]
    elif kind == "cut":
        broken = content[: data.draw(st.sampled_from([0, 10, sealed.HEADER, sealed.HEADER + 5, sealed.HEADER + whole]))]
    elif kind == "more":
        broken = content + data.draw(st.binary(min_size=1, max_size=40))
    elif kind == "swap":
        broken = content[: sealed.HEADER] + body[whole : 2 * whole] + body[:whole] + body[2 * whole :]
    else:
        broken = content[: sealed.HEADER] + body[whole:]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(keys.KEY, raising=False)
        with tempfile.NamedTemporaryFile() as target:
            target.write(broken)
            target.flush()
            with pytest.raises(OffdiagError, match="damaged|not the living state|encrypted with the key"):
                sealed.read(target.name, keys.keys_of(key.secret), "it")


def test_another_key_is_named_and_not_shown(tmp_path, known, key):
    path = seal(tmp_path / "s", key, {}, {})
    other = Key.random()
    with pytest.raises(
        OffdiagError, match=rf"the model is encrypted with the key {key.id}, which is not in.*--key-file"
    ) as error:
        sealed.read(path, keys.keys_of(other.secret), "the model")
    assert key.secret.hex() not in str(error.value) + repr(key) + repr(known)
    assert other.secret.hex() not in str(error.value)
