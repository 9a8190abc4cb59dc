"""What polars raises becomes one line; what it does not raise passes through."""

import polars as pl
import pytest

import offdiag as od
from offdiag.data.failures import polars_failures
from tests.fixtures.tables import refused


def test_a_panic_of_the_table_library_is_an_error_like_any_other(tmp_path, monkeypatch):
    far = pl.Series([2**62, 1]).cast(pl.Datetime("ms"))
    refused(lambda: od.read(pl.DataFrame({"user": far, "item": [1, 2]})), "plain columns")

    class PanicException(BaseException):
        pass

    def panic(*args, **words):
        raise PanicException("called `Option::unwrap()` on a `None` value\nmore")

    pl.DataFrame({"user": [1], "item": [2]}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(pl, "read_parquet", panic)
    refused(lambda: od.read(tmp_path / "t.parquet"), "Parquet", "unwrap", "complete?")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, MemoryError])
def test_interrupts_and_lack_of_memory_pass_through(stop):
    with pytest.raises(stop), polars_failures("a table", "t", "is it complete?", ValueError):
        raise stop
