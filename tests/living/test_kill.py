"""kill -9 at any moment of a command that writes: the old state or the new one, and running it again finishes it."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import offdiag as od
from offdiag.files import keys, sealed, switch

pytestmark = pytest.mark.slow

N_USERS, N_ITEMS = 300, 150
RANDOM = int(os.environ.get("OFFDIAG_KILLS", "2"))  # kills at random times, for each command
AGAIN = 5  # after every fifth kill the command is run again
EVERY = {"update": 2, "forget": 1, "rotate": 2, "fit": 3}  # moments: all take the same path, except for the end
FIT = ["--model", "ease", "--l2", "20", "--user-power", "0.5"]
FORGET = ["forget", "model.od", "--users", "leaving.txt", "--events", "log.csv", "--certificate", "proof.json"]
COMMANDS = {
    "update": ["update", "model.od", "log.csv"],
    "forget": FORGET,
    "rotate": [*FORGET, "--rotate-key"],
    "fit": ["fit", "log.csv", "--out", "model.od", "--updatable", *FIT],
}

# Runs a command again and again in forked copies of itself. The n-th of them is killed at the n-th moment that matters:
# before each file is written, each flush, each rename. Others are killed at a random time. After each kill the
# folder is kept; after some the command is run to its end. Until the first file gets a name nothing is visible, so
# of those moments only the first and the last count.
DRIVER = """
import os, random, shutil, signal, sys, time
import cryptography.hazmat.primitives.ciphers.aead, numba, numpy, polars, scipy.linalg
import offdiag as od
from offdiag import cli, persist
from offdiag._kernels import packed_rows
from offdiag.files import container
from offdiag.living import events, exact_change, state
from offdiag.models import full_rank

X = numpy.eye(8) + numpy.eye(8)[::-1]
od.EASE(l2=20.0, user_power=0.5).fit(X).forget(X[:1])  # loads the compiled loops, once for all copies
cli.main(["update", "--help"])
command, results = sys.argv[1:-4], sys.argv[-4]
at_random, again, every = map(int, sys.argv[-3:])
count, fatal, named = 0, None, None


def moment(name):
    global count, named
    count += 1
    if name == "link" and named is None:
        named = count
    if count == fatal:
        os.kill(os.getpid(), signal.SIGKILL)


def around(place, name):
    call = getattr(place, name)

    def watched(*args, **more):
        moment(name)
        result = call(*args, **more)
        if name == "replace":  # after the others comes the moment before the next
            moment("after")
        return result

    setattr(place, name, watched)


for place, name in ((container, "write"), (os, "fsync"), (os, "replace"), (os, "link"), (os, "unlink")):
    around(place, name)


def run(at, seconds=None):
    global fatal, count
    child = os.fork()
    if not child:
        fatal, count = at, 0
        code = cli.main(command)
        if at is None and seconds is None and not os.path.exists("../moments"):
            open("../moments", "w").write(" ".join(map(str, [1, *range(named or 2, count + 1, every)])))
        os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fresh():
    os.chdir(results)
    shutil.rmtree("work", ignore_errors=True)
    shutil.copytree("start", "work")
    os.chdir("work")


def keep(name):
    shutil.copytree(".", f"../{name}")


fresh()
assert run(0) == 0  # compiled loops are kept on disk, which also changes names
fresh()
begin = time.perf_counter()
assert run(None) == 0
whole = time.perf_counter() - begin
keep("new")
moments = [int(word) for word in open("../moments").read().split()]
draw = random.Random(0)
for n, at in enumerate([*moments, *[None] * at_random]):
    fresh()
    code = run(at, None if at else draw.uniform(0, 1.1) * whole)
    assert code == -signal.SIGKILL or at is None, code
    at = at or f"random-{draw.getrandbits(40)}"
    keep(f"killed-{at}")
    if n % again == 0 or at == moments[-1]:
        open(f"../killed-{at}/code", "w").write(str(run(None)))
        keep(f"again-{at}")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The model of the first part of a log, its key, the whole log, and users to forget."""
    place = tmp_path_factory.mktemp("kill")
    inter = od.synthetic.interactions(N_USERS, N_ITEMS, 6_000, names=False, seed=2)
    users = np.repeat(np.arange(N_USERS), np.diff(inter.matrix.indptr))
    rows = [f"{u},{i}\n" for u, i in zip(users.tolist(), inter.matrix.indices.tolist(), strict=True)]
    late = np.random.default_rng(0).random(len(rows)) < 0.002
    early = [row for row, held in zip(rows, late, strict=True) if not held and int(row.split(",")[0]) < 290]
    (place / "half.csv").write_text("user,item\n" + "".join(early))
    (place / "log.csv").write_text("user,item\n" + "".join(rows))
    (place / "leaving.txt").write_text("3\n17\n289\n")
    command = ["fit", "half.csv", "--out", "model.od", "--updatable", *FIT]
    subprocess.run([sys.executable, "-m", "offdiag", *command], cwd=place, env=environment(), check=True)
    return place


def environment():
    return os.environ | {"OFFDIAG_KEY_FILE": "keys"}


def state(place):
    """Weights and living state, as any command finds them; the two must match."""
    known = keys.keys_of(place / "keys")
    model = od.load(place / "model.od", verify=True, key=place / "keys")
    _, arrays, _ = sealed.read(switch.living_path(place / "model.od"), known, "it")
    model.gram_.toarray()  # the two files belong together
    weights = {name: array.tobytes() for name, array in model.weights_.arrays().items()}
    # A new fit has a new key, so digests and their order are new.
    return weights, {name: len(a) if name.startswith("ledger.") else a.tobytes() for name, a in arrays.items()}


def remains(place):
    return sorted(path.name for path in place.iterdir() if path.name.startswith(("model.od", ".offdiag", "keys")))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_every_moment_that_matters_and_at_any_time(folder, tmp_path, name):
    command = COMMANDS[name]
    shutil.copytree(folder, tmp_path / "start")
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, *command, str(tmp_path), str(RANDOM), str(AGAIN), str(EVERY[name])],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert ran.returncode == 0, ran.stderr
    old, new = state(tmp_path / "start"), state(tmp_path / "new")
    assert old != new
    seen = {"old": 0, "new": 0}
    kept = sorted(path for path in tmp_path.iterdir() if path.name.startswith("killed"))
    assert len(kept) == len((tmp_path / "moments").read_text().split()) + RANDOM
    for place in kept:
        left = remains(place)
        unreadable = [name for name in left if name.endswith((".living", ".living.next", ".change"))]
        for name in unreadable:
            assert (place / name).read_bytes().startswith(sealed.MAGIC)
            assert (place / name).stat().st_mode & 0o077 == 0
        found = state(place)  # which completes an unfinished change
        assert found in (old, new), place
        seen["old" if found == old else "new"] += 1
        again = place.with_name(place.name.replace("killed", "again"))
        if not again.exists():
            continue
        finished = state(again)
        assert finished == new, place
        assert remains(again) == ["keys", "model.od", "model.od.living"], place
        if "--certificate" in command:
            proof = json.loads((again / "proof.json").read_text())
            assert proof["users"] == 3
            assert (place / "code").read_text() == "0"
        if "--rotate-key" in command:  # no copy of the old state can be read any more
            about = sealed.key_id(folder / "model.od.living")
            assert not keys.keys_of(again / "keys").has(about)
    assert seen["old"] >= 3
    assert seen["new"] >= 3
