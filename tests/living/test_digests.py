"""Keyed digests: SipHash against its definition, digests of histories against one history at a time."""

import hashlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.living import digests
from offdiag.living.digests import ITEM, Hashes
from offdiag.living.first_format import FirstHashes
from tests.laws.strategies import interactions

KEY = bytes(range(16))
HASHES = Hashes(bytes(range(32)))


def plain_siphash(key, message, long=False):
    """SipHash-2-4 one byte string at a time, with Python integers; 16 bytes if long."""
    word = (1 << 64) - 1

    def rotate(x, bits):
        return ((x << bits) | (x >> (64 - bits))) & word

    def rounds(v, count):
        a, b, c, d = v
        for _ in range(count):
            a, c = (a + b) & word, (c + d) & word
            b, d = rotate(b, 13) ^ a, rotate(d, 16) ^ c
            a = rotate(a, 32)
            c, a = (c + b) & word, (a + d) & word
            b, d = rotate(b, 17) ^ c, rotate(d, 21) ^ a
            c = rotate(c, 32)
        return [a, b, c, d]

    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    v[1] ^= 0xEE if long else 0
    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for i in range(0, len(padded), 8):
        m = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= m
        v = rounds(v, 2)
        v[0] ^= m
    v[2] ^= 0xEE if long else 0xFF
    v = rounds(v, 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    if not long:
        return first
    v[1] ^= 0xDD
    v = rounds(v, 4)
    return first.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


def test_the_keyed_hash_gives_the_published_values():
    assert digests.siphash(KEY)[0] == 0x726FDB47DD0E0E31
    assert digests.siphash(KEY, int.from_bytes(bytes(range(8)), "little"))[0] == 0x93F5F5799A932462
    assert plain_siphash(KEY, bytes(range(15))) == 0xA129CA6149BE45E5  # the example of the paper
    long = "a3817f04ba25a8e66df67214c7550293"  # the first of the published 16-byte values
    assert digests.siphash128(KEY)[0].hex() == plain_siphash(KEY, b"", long=True).hex() == long


WORD = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(WORD, WORD, WORD), min_size=1, max_size=5), st.binary(min_size=16, max_size=16))
def test_the_keyed_hash_of_arrays_is_that_of_each_row(rows, key):
    columns = np.array(rows, dtype=np.uint64).T
    expected = [plain_siphash(key, b"".join(w.to_bytes(8, "little") for w in (7, *row))) for row in rows]
    assert digests.siphash(key, 7, *columns).tolist() == expected
    long = [plain_siphash(key, b"".join(w.to_bytes(8, "little") for w in (7, *row)), long=True) for row in rows]
    assert np.array_equal(digests.siphash128(key, 7, *columns), np.array(long, dtype=digests.DIGEST))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12, unique=True), st.data())
def test_digests_are_found_wherever_halves_of_them_collide(rows, data):
    known = digests.digests(np.array(rows, dtype=np.uint64).reshape(-1, 2))
    asked = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
    wanted = digests.digests(np.array(asked, dtype=np.uint64).reshape(-1, 2))
    assert digests.places(known, wanted).tolist() == [rows.index(row) if row in rows else -1 for row in asked]
    assert digests.any_twice(wanted) == (len(set(asked)) < len(asked))


def test_blocks_of_the_keyed_hash_do_not_matter():
    words = np.arange(40_000, dtype=np.uint64)
    whole = digests.siphash(KEY, 1, words)
    assert len(np.unique(whole)) == len(words)
    assert np.array_equal(whole[20_000:], digests.siphash(KEY, 1, words[20_000:]))


def test_an_event_id_is_the_same_as_a_number_and_as_text():
    codes = FirstHashes(KEY, KEY).event_codes
    large = [2**63 - 1, -(2**63)]
    assert np.array_equal(codes(pl.Series(large)), codes(pl.Series(map(str, large))))
    numbers = codes(pl.Series([7, -3, 0]))
    texts = codes(pl.Series(["7", "-3", "0", "07", "7.0", "a", "9" * 30]))
    assert numbers.tolist() == texts[:3].tolist()
    assert len(set(texts.tolist())) == 7
    assert np.array_equal(digests.number_codes(np.array([5, 0])), digests.number_codes(np.array([5.0, -0.0])))


def one_by_one(matrix, item_ids):
    """The same digests from one history at a time, items in the order of their ids."""
    found = []
    for row in matrix.toarray():
        entries = sorted((item_ids[i].item(), float(row[i])) for i in np.flatnonzero(row))
        digest = hashlib.blake2b(digest_size=16, key=HASHES.key, person=b"history")
        for item, value in entries:
            digest.update(HASHES._ids(ITEM, np.array([item])).tobytes())
            digest.update(digests.number_codes(np.array([value])).astype("<u8").tobytes())
        found.append(digest.digest() if entries else bytes(16))
    return np.frombuffer(b"".join(found), digests.DIGEST)


@given(interactions(values="counts"), st.booleans(), st.sampled_from([1, 3, digests._BLOCK]), st.randoms())
def test_a_digest_is_that_of_the_sorted_history(X, text, block, random):
    ids = np.array([f"item {i}" for i in range(X.shape[1])]) if text else np.arange(X.shape[1]) * 7
    order = np.array(random.sample(range(X.shape[1]), X.shape[1]), dtype=int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "_BLOCK", block)
        found = HASHES.histories(X, ids)
        moved = HASHES.histories(sparse.csr_array(X[:, order]), ids[order])
    assert np.array_equal(found, one_by_one(X, ids))
    assert np.array_equal(found, moved)


@given(interactions(), interactions(values="counts"))
def test_a_history_of_ones_has_one_digest_next_to_any_other(X, other):
    width = max(X.shape[1], other.shape[1])
    X, other = (sparse.csr_array((A.data, A.indices, A.indptr), shape=(A.shape[0], width)) for A in (X, other))
    together = sparse.csr_array(sparse.vstack([X, other]))
    ids = np.arange(width)
    assert np.array_equal(HASHES.histories(together, ids)[: X.shape[0]], HASHES.histories(X, ids))


def test_digests_do_not_add_up():
    """The digests of two histories do not reveal that of both together."""
    X = sparse.csr_array(np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32))
    one, other, both = (int.from_bytes(d.ljust(16, b"\0"), "little") for d in HASHES.histories(X, np.arange(2)))
    assert (one + other) % 2**128 != both
    assert one ^ other != both


def test_digests_do_not_reorder_the_data_of_the_caller():
    X = sparse.csr_array(np.array([[1, 2, 0], [3, 0, 4], [5, 6, 7.0]]))
    inter = od.Interactions(X.copy(), np.arange(3), np.array([9, 5, 1]))  # items are hashed in the order of their ids
    od.EASE(l2=1.0).fit(inter).forget(inter.select_users([0]))
    assert np.array_equal(inter.matrix.toarray(), X.toarray())
