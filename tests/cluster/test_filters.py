"""Filters of parts are those of one table."""

import pytest

import offdiag as od
from tests.fixtures.partitions import cut, same_bytes, table, write_parts

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


def test_filters_are_those_of_one_machine(client, tmp_path):
    files = write_parts(tmp_path / "parts", cut(table(), 3))
    here = od.read(files, value="value", duplicates="once")
    there = od.cluster.read(files, value="value", duplicates="once", client=client)
    same_bytes(
        od.cluster.prepare(there, at_least=2.5, min_users=3, min_items=20).gather(),
        od.prepare.min_counts(od.prepare.binarize(here, at_least=2.5), users=3, items=20),
    )
    with pytest.raises(od.OffdiagError, match="lower the minimum counts"):
        od.cluster.prepare(there, min_items=10_000)
