"""kill -9 at any moment of `offdiag update` and `offdiag forget`: the old model or the new one, and a rerun ends it."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import offdiag as od
from offdiag import container

N_USERS, N_ITEMS = 300, 150
AGAIN = 8  # after every eighth kill the command is run again
FIT = ["--model", "ease", "--l2", "20", "--user-power", "0.5"]
COMMANDS = {
    "update": ["update", "model.od", "log.csv"],
    "forget": ["forget", "model.od", "--users", "leaving.txt", "--events", "log.csv"],
}

# Runs a command again and again in forked copies of itself, the n-th of which is killed at the n-th moment that
# matters: before and after each change of the model in memory, each piece written, each flush, each change of a name.
DRIVER = """
import os, shutil, signal, sys
from offdiag import cli, container, persist
from offdiag.cli import commands
from offdiag.models import living

command, results, again = sys.argv[1:-2], sys.argv[-2], int(sys.argv[-1])
count, fatal = 0, None


def moment():
    global count
    count += 1
    if count == fatal:
        os.kill(os.getpid(), signal.SIGKILL)


def around(place, name):
    call = getattr(place, name)

    def watched(*args, **more):
        moment()
        result = call(*args, **more)
        if name in ("changed", "replace"):  # after the others comes the moment before the next
            moment()
        return result

    setattr(place, name, watched)


def watched_pieces(array, pieces=container._pieces):
    if array.nbytes > 10_000:  # the others are written between two of these
        moment()
    yield from pieces(array)


container._pieces = watched_pieces
for place, name in ((living, "changed"), (container, "write"), (os, "fsync"), (os, "replace"), (shutil, "copymode")):
    around(place, name)


def run(at):
    global fatal
    child = os.fork()
    if not child:
        fatal = at
        code = cli.main(command)
        if not os.path.exists("moments"):
            open("moments", "w").write(str(count))
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


shutil.copyfile("old.od", "model.od")
assert run(None) == 0
shutil.copyfile("model.od", "new.od")
moments = int(open("moments").read())
codes = []
for at in range(1, moments + 1):
    shutil.copyfile("old.od", "model.od")
    codes.append(run(at))
    shutil.copyfile("model.od", f"{results}/killed-{at}.od")
    if at % again == 0 or at == moments:
        run(None)
        shutil.copyfile("model.od", f"{results}/again-{at}.od")
assert set(codes) == {-signal.SIGKILL}, codes
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The model of the beginning of a log, all of the log, and users who leave."""
    place = tmp_path_factory.mktemp("kill")
    inter = od.synthetic.interactions(N_USERS, N_ITEMS, 6_000, names=False, seed=2)
    users = np.repeat(np.arange(N_USERS), np.diff(inter.matrix.indptr))
    rows = [f"{u},{i}\n" for u, i in zip(users.tolist(), inter.matrix.indices.tolist(), strict=True)]
    late = np.random.default_rng(0).random(len(rows)) < 0.002
    early = [row for row, held in zip(rows, late, strict=True) if not held and int(row.split(",")[0]) < 290]
    (place / "half.csv").write_text("user,item\n" + "".join(early))
    (place / "log.csv").write_text("user,item\n" + "".join(rows))
    (place / "leaving.txt").write_text("3\n17\n289\n")
    assert offdiag(place, "fit", "half.csv", "--out", "old.od", "--updatable", *FIT).wait() == 0
    return place


def offdiag(place, *args):
    return subprocess.Popen(
        [sys.executable, "-m", "offdiag", *args], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def tensors(path):
    """All there is in a model file but the time of saving; every byte is checked."""
    od.load(path, verify=True)
    with container.opened(path) as file:
        header = container.read_header(path, file)
        mapped = container.mapped(file, header)
    return {name: container.array(mapped, header, name).tobytes() for name in header.tensors}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_killed_at_every_moment_that_matters(folder, tmp_path, command):
    place = tmp_path / "work"
    shutil.copytree(folder, place)
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, *command, str(tmp_path), str(AGAIN)],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    old, new = tensors(place / "old.od"), tensors(place / "new.od")
    assert old != new
    moments = int((place / "moments").read_text())
    seen = {"old": 0, "new": 0}
    for at in range(1, moments + 1):
        found = tensors(tmp_path / f"killed-{at}.od")
        assert found in (old, new), at
        seen["old" if found == old else "new"] += 1
        if at % AGAIN == 0 or at == moments:
            assert tensors(tmp_path / f"again-{at}.od") == new, at
    assert seen["old"] > 5
    assert seen["new"] >= 1


def test_killed_at_any_time(folder, tmp_path):
    """Real processes: killed after so long, or when the new file appears."""
    command = COMMANDS["update"]
    place = tmp_path / "work"
    shutil.copytree(folder, place)
    shutil.copyfile(place / "old.od", place / "model.od")
    begin = time.monotonic()
    assert offdiag(place, *command).wait() == 0
    whole = time.monotonic() - begin
    old, new = tensors(place / "old.od"), tensors(place / "model.od")
    for share in (0.7, 0.95, None):
        shutil.copyfile(place / "old.od", place / "model.od")
        begin = time.monotonic()
        with offdiag(place, *command) as ran:
            while ran.poll() is None:
                if share is None:
                    due = any(name.endswith(".tmp") for name in os.listdir(place))
                else:
                    due = time.monotonic() - begin > share * whole
                if due:
                    ran.send_signal(signal.SIGKILL)
                    break
            ran.wait()
        assert ran.returncode in (0, -signal.SIGKILL)
        assert tensors(place / "model.od") in (old, new)
    assert offdiag(place, *command).wait() == 0
    assert tensors(place / "model.od") == new
