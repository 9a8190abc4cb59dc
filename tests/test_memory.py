import pytest

from offdiag import memory
from offdiag.errors import NotEnoughMemory


def test_some_memory_is_available():
    assert memory.available() is None or memory.available() > 0


def test_an_allocation_that_cannot_fit_is_an_error():
    with pytest.raises(NotEnoughMemory, match=r"this needs 1e\+06 TB of memory but .* is available; try less"):
        memory.require(10**18, "this", "try less")
    memory.require(1, "this", "try less")


def test_a_container_limit_counts_and_its_file_cache_does_not(tmp_path, monkeypatch):
    for name, text in (("max", "8000000"), ("current", "7900000"), ("stat", "anon 100\ninactive_file 5000000\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "_CONTAINER_LIMITS", ((tmp_path / "max", tmp_path / "current", tmp_path / "stat"),))
    assert memory.available() == 5_100_000
    (tmp_path / "max").write_text("max\n")
    assert memory.available() is None or memory.available() > 5_100_000
