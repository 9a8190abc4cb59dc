"""Downloads without a network: checked, reported, and whole or not there at all."""

import hashlib
import io
import urllib.error

import pytest

from offdiag.data import datasets
from offdiag.data._sets import download
from offdiag.errors import OffdiagError


class Answer(io.BytesIO):
    def __init__(self, content: bytes, said: int | None = None):
        super().__init__(content)
        self.headers = {"Content-Length": str(len(content) if said is None else said)}


def test_a_download_is_checked_reported_and_kept(monkeypatch, tmp_path):
    content = b"x" * 3_000_000
    asked, stages = [], []

    def open_address(address, timeout):
        asked.append(address)
        return Answer(content)

    monkeypatch.setattr(download.urllib.request, "urlopen", open_address)
    checksum = "md5:" + hashlib.md5(content).hexdigest()
    target = tmp_path / "new" / "file.bin"
    download.fetch("https://example.org/file.bin", target, checksum, lambda stage, done: stages.append((stage, done)))
    assert target.read_bytes() == content
    assert stages[-1] == ("download file.bin", 1.0)
    assert [done for _, done in stages] == sorted(done for _, done in stages)
    download.fetch("https://example.org/file.bin", target, checksum)
    assert len(asked) == 1  # the second time it was already there
    target.write_bytes(b"changed")
    with pytest.raises(OffdiagError, match="delete it"):
        download.fetch("https://example.org/file.bin", target, checksum)


WRONG = "0" * 32
RECEIVED = f"md5 {WRONG} for file.bin, received {hashlib.md5(b'abc').hexdigest()}"


@pytest.mark.parametrize(
    ("trouble", "checksum", "words"),
    [
        ("wrong", f"md5:{WRONG}", RECEIVED),
        ("short", None, "5 bytes"),
        ("short", f"md5:{WRONG}", f"{RECEIVED}; only 3 of 5 bytes arrived"),
        ("offline", None, "no route"),
        ("interrupt", None, None),
    ],
)
def test_a_failed_download_leaves_nothing_behind(trouble, checksum, words, monkeypatch, tmp_path):
    def open_address(address, timeout):
        if trouble == "offline":
            raise urllib.error.URLError("no route")
        return Answer(b"abc", said=5 if trouble == "short" else None)

    def stop(stage, done):
        if trouble == "interrupt":
            raise KeyboardInterrupt

    monkeypatch.setattr(download.urllib.request, "urlopen", open_address)
    with pytest.raises(KeyboardInterrupt if trouble == "interrupt" else OffdiagError, match=words):
        download.fetch("https://example.org/file.bin", tmp_path / "file.bin", checksum, stop)
    assert list(tmp_path.iterdir()) == []


def test_download_fills_the_cache_and_load_finds_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(OffdiagError, match=r"datasets\.download\('gowalla'\)"):
        datasets.load("gowalla")
    files = {"train.txt": b"0 1 2\n", "test.txt": b"0 3\n"}
    monkeypatch.setattr(
        download.urllib.request, "urlopen", lambda address, timeout: Answer(files[address.rpartition("/")[2]])
    )
    assert datasets.download("gowalla") == tmp_path / "offdiag" / "gowalla"
    assert datasets.load("gowalla").nnz == 3
