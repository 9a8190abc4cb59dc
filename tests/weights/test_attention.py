"""Places of an ordered history as bits, and attention against torch's own modules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag import ranking
from offdiag.weights.attention import EPSILON, LONGEST, last_states, padded, shapes

ITEMS = np.arange(6)


@given(st.lists(st.lists(st.integers(0, 5), max_size=70), min_size=1, max_size=4), st.integers(1, LONGEST + 1))
def test_the_bits_of_a_row_are_its_last_events(histories, length):
    rows, _ = ranking.encode(histories, ITEMS, ranking.Recency(0.5))
    found = padded(rows, length)
    for history, items, filled in zip(histories, *found, strict=True):
        if max(map(history.count, history), default=0) < 50:  # longer runs of one item are rounded
            assert items[filled].tolist() == history[-length:]
        assert not filled[: len(filled) - min(len(history), length)].any()


def test_plain_counts_are_read_as_the_last_choice():
    rows, _ = ranking.encode(np.array([[0, 3, 0, 0, 0, 0]], dtype=np.float32), ITEMS)
    assert padded(rows, 5).items.tolist() == [[1]]


def torch_states(torch, parts, history, blocks):
    """One history, without padding, through torch's attention and norms."""
    nn, width = torch.nn, parts["items"].shape[1]
    tensors = {name: torch.from_numpy(array) for name, array in parts.items()}

    def norm(n, which):
        layer = nn.LayerNorm(width, eps=EPSILON, dtype=torch.float64)
        layer.load_state_dict({"weight": tensors[f"scale{which}{n}"], "bias": tensors[f"offset{which}{n}"]})
        return layer

    x = tensors["items"][history] * width**0.5 + tensors["places"][: len(history)].flip(0)
    for n in range(blocks):
        attention = nn.MultiheadAttention(width, 1, bias=False, batch_first=True, dtype=torch.float64)
        three = torch.cat([tensors[f"{name}{n}"].T for name in ("query", "key", "value")])
        attention.load_state_dict({"in_proj_weight": three, "out_proj.weight": torch.eye(width, dtype=torch.float64)})
        y = norm(n, "")(x)[None]
        future = torch.ones(len(history), len(history)).triu(1).bool()
        x = x + attention(y, y, y, attn_mask=future, need_weights=False)[0][0]
        first, second = (nn.Linear(width, width, dtype=torch.float64) for _ in range(2))
        first.load_state_dict({"weight": tensors[f"first{n}"].T, "bias": tensors[f"first_bias{n}"]})
        second.load_state_dict({"weight": tensors[f"second{n}"].T, "bias": tensors[f"second_bias{n}"]})
        x = x + second(torch.relu(first(norm(n, "2")(x))))
    return norm("", "")(x)[-1].detach().numpy()


def test_states_are_those_of_torch_with_and_without_padding():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    parts = {name: rng.standard_normal(shape) for name, shape in shapes(6, 4, 8, 2).items()}
    histories = [[0, 1, 2, 2, 5], [3], [4, 4], [1, 0, 5, 2, 3, 4, 1, 0]]
    rows, _ = ranking.encode(histories, ITEMS, ranking.Recency(0.5))
    expected = [torch_states(torch, parts, history, 2) for history in histories]
    np.testing.assert_allclose(last_states(parts, padded(rows, 8)), expected, atol=1e-10)
