"""Lines of JSON from which a stopped run resumes; the studies and tables that use them have their own tests."""

import pytest

from offdiag.errors import OffdiagError
from offdiag.files import run_journal

HEADER = {"format": "offdiag test 1", "data": [1, 2]}


def resumed(path, header=HEADER):
    return run_journal.resume(path, header, "study", lambda line: int(line.get("at", "missing")))


def test_a_run_resumes_after_its_last_whole_line(tmp_path):
    path = tmp_path / "s.jsonl"
    assert resumed(path) == []
    for at in (1, 2):
        run_journal.append(path, {"at": at})
    whole = path.read_bytes()
    path.write_bytes(whole + '{"at": "ü'.encode()[:-1])  # killed in the middle of a letter
    assert resumed(path) == [1, 2]
    assert path.read_bytes() == whole


def test_the_file_of_another_run_is_refused_by_its_differences(tmp_path):
    path = tmp_path / "s.jsonl"
    resumed(path)
    before = path.read_bytes()
    with pytest.raises(OffdiagError, match=r"is of something else: data \[1, 2\] there and \[3\] here; choose another"):
        resumed(path, HEADER | {"data": [3]})
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["no JSON\n", "[1]\n", '{"format": "another"}\n', '{"format": "offdiag test 1"}\n{}\n']
)
def test_other_files_are_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "s.jsonl"
    path.write_text(text + "\n")
    with pytest.raises(OffdiagError, match="expected a study written by offdiag"):
        resumed(path)
    assert path.read_text() == text + "\n"
