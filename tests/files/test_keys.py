"""Keys of living states: where they are found, stored and destroyed, and that they are never shown."""

import errno
import fcntl
import os
import stat

import pytest

from offdiag.errors import OffdiagError
from offdiag.files import keys
from offdiag.files.keys import Key, Keys


def new_key(known):
    key = known.new()
    known.keep(key)
    return key


def test_a_key_file_is_made_for_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.delenv(keys.KEY_FILE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    known = keys.keys_of()
    first, second = new_key(known), new_key(known)
    path = tmp_path / "config" / "offdiag" / "keys"
    assert known.path == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert first != second
    assert path.read_text().split() == [first.secret.hex(), second.secret.hex()]
    known.retire(first.id)
    assert path.read_text().split() == [second.secret.hex()]
    assert not known.has(first.id)
    assert known.has(second.id)
    assert sorted(os.listdir(path.parent)) == ["keys"]
    path.chmod(0o644)
    with pytest.raises(OffdiagError, match="can be read by others.*chmod 600"):
        known.new()


def test_keys_come_from_files_variables_bytes_and_functions(tmp_path, monkeypatch):
    key = Key.random()
    assert keys.keys_of(key.secret).new() == key
    assert keys.keys_of(lambda: key.secret).new() == key
    monkeypatch.setenv(keys.KEY, key.secret.hex())
    assert keys.keys_of().new() == key
    other = new_key(keys.keys_of(tmp_path / "mine"))  # a named file takes precedence over the variable
    assert other != key
    assert keys.keys_of(tmp_path / "mine").has(other.id)
    with pytest.raises(OffdiagError, match="OFFDIAG_NEW_KEY"):
        keys.keys_of().rotated()
    fresh = Key.random()
    monkeypatch.setenv(keys.NEW_KEY, fresh.secret.hex())
    assert keys.keys_of().rotated() == fresh
    with pytest.raises(OffdiagError, match="cannot be replaced from here"):
        keys.keys_of(Key.random().secret).rotated()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"short", "expected a key of 32 bytes, received 5 bytes"),
        (lambda: "text", "expected a key of 32 bytes, received str"),
        ("/dev/null", "not an ordinary file"),
        ("no/such/folder/keys", "its folder does not exist"),
    ],
)
def test_an_invalid_key_gives_a_one_line_error(source, words):
    with pytest.raises(OffdiagError, match=words):
        keys.keys_of(source)


def test_an_invalid_line_of_a_key_file_is_not_shown(tmp_path):
    path = tmp_path / "keys"
    path.write_text("hunter2\n")
    path.chmod(0o600)
    with pytest.raises(OffdiagError, match="64 hexadecimal digits") as error:
        Keys(path).new()
    assert "hunter2" not in str(error.value)
    assert path.read_text() == "hunter2\n"


def test_keys_are_kept_and_retired_on_a_disk_without_locks(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    known = keys.keys_of(tmp_path / "keys")
    key = new_key(known)
    assert known.has(key.id)
    known.retire(key.id)
    assert not known.has(key.id)
