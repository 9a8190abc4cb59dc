import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offdiag._kernels import byte_rows


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=60), st.data())
def test_the_kth_largest_is_that_of_a_sort(values, data):
    k = data.draw(st.integers(1, len(values)))
    assert byte_rows.kth_largest(np.array(values, np.int32), k) == sorted(values)[-k]


def test_sums_of_codes_do_not_overflow_in_long_histories():
    codes = np.full((300, 64), byte_rows.LARGEST, np.int8)
    history, sums = np.arange(300, dtype=np.int32), np.empty(64, np.int32)
    byte_rows.add_codes(codes, history, 0, 300, 0, np.empty(64, np.int16), sums)
    assert (sums == 300 * byte_rows.LARGEST).all()
