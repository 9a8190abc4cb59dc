"""The attacker's test: someone with every byte on the disk after a forget, and what the holder of the key can learn.

The promises are those of docs/privacy.md.
"""

import json
import os

import numpy as np
import pytest
from scipy import sparse, stats

import offdiag as od
from offdiag import cli
from offdiag.files import container, keys, sealed, switch
from offdiag.gramian import layout
from offdiag.living import past
from offdiag.solvers import woodbury
from tests.fixtures.changed_models import refitted

pytestmark = pytest.mark.slow

M, TRIALS = 40, 120
SETTINGS = {"dropout": 0.3, "l2": 5.0, "user_power": 0.0}
MODELS = {
    "EASE": od.EASE(l2=5.0),
    "EDLAE": od.EDLAE(dropout=0.3, l2=5.0),
    "RDLAE": od.RDLAE(dropout=0.3, l2=5.0),
    "SparseEDLAE": od.SparseEDLAE(neighbours=8, dropout=0.3, l2=5.0),
    "LowRankEDLAE": od.LowRankEDLAE(rank=4, dropout=0.3, l2=5.0),
    "Spectral": od.Spectral(rank=4),
    "Popularity": od.Popularity(),
    "NextItem": od.NextItem(l2=5.0, mix=0.3, dropout=0.2, decay=0.7, history_decay=0.8, user_power=1.0),
}


@pytest.fixture(scope="module")
def people():
    return od.synthetic.interactions(700, M, 9_000, names=False, seed=5).matrix.toarray()


def auc(there, control):
    """The probability that the attacker ranks a former user above one who was never added, and its standard error."""
    n = len(there)
    return stats.mannwhitneyu(there, control).statistic / n**2, np.sqrt((2 * n + 1) / (12 * n * n))


def read_serving(path):
    """The contents of the model file: the matrix behind the weights, and popularity."""
    model = od.load(path, key=os.urandom(32))
    W = model.weights_
    H = np.linalg.inv(layout.unpack(np.asarray(W.C), M).astype(np.float64))
    return H, model.popularity_


def suspicions(H, popularity, history, certificate):
    """Numbers that would be larger for a forgotten user than for one who was never in the model."""
    items = np.flatnonzero(history)
    others = np.setdiff1d(np.arange(M), items)
    residue = np.abs(H - np.rint(H)) / np.sqrt(np.outer(np.diag(H), np.diag(H)))
    np.fill_diagonal(residue, 0)
    inside = residue[np.ix_(items, items)]
    return {
        "rounding left in the weights": np.log(inside.mean() / residue[np.ix_(others, others)].mean()),
        "largest rounding": inside.max(),
        "rounding left in the popularity": np.abs(popularity - np.rint(popularity))[items].sum(),
        "how well the history fits": H[np.ix_(items, items)].sum(),
        "errors in the certificate": -abs(np.log(max(certificate["weight_error"], 1e-300)) + len(items)),
    }


def test_files_do_not_reveal_whether_a_user_was_in_the_model(people, tmp_path, monkeypatch):
    monkeypatch.setattr(woodbury, "flops", lambda m, s: 0.0)  # no refit: what the change leaves behind stays
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # hundreds of files, and none has to be durable
    rng = np.random.default_rng(0)
    seen = {"there": [], "control": [], "both files": [], "both files, control": []}
    eligible = np.flatnonzero((people.sum(axis=1) >= 3) & (people.sum(axis=1) <= 15))
    sizes = {"there": set(), "control": set()}
    for trial in range(TRIALS):
        target, other = rng.choice(eligible, 2, replace=False)
        base = rng.choice(np.setdiff1d(np.arange(len(people)), [target, other]), 150, replace=False)
        for kind, leaving in (("there", target), ("control", other)):
            path = tmp_path / "model.od"
            model = od.EDLAE(**SETTINGS).fit(people[[*base, leaving]])
            before = None
            if trial < 25:  # enough for an attack that works
                model.save(path, updatable=True)
                before, _ = read_serving(path)
            certificate = model.forget(people[[leaving]])
            assert certificate.method == "woodbury"
            model.save(path, updatable=True)
            H, popularity = read_serving(path)
            seen[kind].append(suspicions(H, popularity, people[target], certificate.to_dict()))
            sizes[kind].add(switch.living_path(path).stat().st_size)
            if before is None:
                continue
            items = np.flatnonzero(people[target])
            moved = np.abs(before - H)[np.ix_(items, items)].sum() / max(np.abs(before - H).sum(), 1e-9)
            seen["both files" if kind == "there" else "both files, control"].append(moved)
    assert sizes["there"] == sizes["control"]
    for name in seen["there"][0]:
        found, error = auc(*([row[name] for row in seen[kind]] for kind in ("there", "control")))
        assert abs(found - 0.5) <= 3 * error, (name, found)
    # The attack itself works: anyone who also has the earlier file sees the difference, as documented.
    assert auc(seen["both files"], seen["both files, control"])[0] > 0.95


@pytest.mark.parametrize("name", MODELS)
def test_no_item_of_the_forgotten_is_left_in_any_file(name, tmp_path):
    """An item that only they had, and every number that differs from a model that never saw them."""
    inter = od.synthetic.interactions(120, 25, 1_200, times=True, seed=3)
    diary = "the diary of user 3"
    X = sparse.csr_array(sparse.hstack([inter.matrix, sparse.csr_array(np.eye(1, 120, 3).T)]).astype(np.float32))
    ids = np.concatenate([inter.item_ids, [diary]])
    order = np.argsort(ids)
    X = sparse.csr_array(X[:, order])
    when = np.random.default_rng(0).permutation(X.nnz)
    everyone = od.Interactions(X, inter.user_ids, ids[order], times=when)
    path = tmp_path / "model.od"
    model = type(MODELS[name])(**MODELS[name].get_params()).fit(everyone)
    model.save(path, updatable=True)
    model = od.load(path)
    certificate = model.forget(everyone.select_users(np.array([3])))
    model.save(path, updatable=True)
    (tmp_path / "certificate.json").write_text(json.dumps(certificate.to_dict()))
    for file in tmp_path.iterdir():
        assert b"diary" not in file.read_bytes(), file
    rest = everyone.select_users(np.setdiff1d(np.arange(120), [3])).select_items(ids=inter.item_ids)
    refitted(model, rest).save(tmp_path / "fresh.od", updatable=True)
    _, ours, _ = sealed.read(switch.living_path(path), keys.keys_of(), "it")
    _, theirs, _ = sealed.read(switch.living_path(tmp_path / "fresh.od"), keys.keys_of(), "it")
    for part in {name for name in (*ours, *theirs) if name.startswith(("gram.", "low."))}:
        assert ours[part].tobytes() == theirs[part].tobytes(), part
    a, b = (od.load(place, verify=True) for place in (path, tmp_path / "fresh.od"))
    assert a.popularity_.tobytes() == b.popularity_.tobytes()
    assert a.item_ids_.tolist() == b.item_ids_.tolist()
    with container.opened(path) as file:
        header = container.read_header(path, file)
    assert not [tensor for tensor in header.tensors if tensor.startswith(("gram", "ledger", "roll", "peaks", "low"))]


def test_the_living_state_looks_like_noise_without_its_key(tmp_path, people):
    od.EDLAE(**SETTINGS).fit(people).save(tmp_path / "m.od", updatable=True)
    content = np.frombuffer(switch.living_path(tmp_path / "m.od").read_bytes(), np.uint8)[sealed.HEADER :]
    assert len(content) > 10_000
    assert stats.chisquare(np.bincount(content, minlength=256)).pvalue > 1e-4


def test_no_guess_can_be_tested_without_the_key(tmp_path):
    """The attack that recovered every event of the first format: try all items for a user, hash, compare."""
    inter = od.synthetic.interactions(60, 12, 250, names=False, seed=1)
    model = od.EDLAE(**SETTINGS).fit(inter)
    model.save(tmp_path / "m.od", updatable=True, key=tmp_path / "keys")
    on_disk = (tmp_path / "m.od").read_bytes() + (tmp_path / "m.od.living").read_bytes()
    ledger = past.ledger_of(od.load(tmp_path / "m.od", key=tmp_path / "keys"))
    for digests in (ledger.entries.users, ledger.entries.histories, ledger.entries.events):
        for digest in digests[:20]:
            assert bytes(digest).ljust(16, b"\0") not in on_disk
    assert ledger.hashes.key not in on_disk
    assert bytes.fromhex((tmp_path / "keys").read_text().strip()) not in on_disk
    # With the plain text of the living state, but not the key, digests cannot be computed either.
    about, _, _ = sealed.read(tmp_path / "m.od.living", keys.keys_of(tmp_path / "keys"), "it")
    assert ledger.hashes.key.hex() not in json.dumps(about)


def test_the_holder_of_the_key_can_test_guesses_about_current_users(tmp_path):
    """Current users can be tested guess by guess; forgotten users cannot."""
    inter = od.synthetic.interactions(60, 12, 250, names=False, seed=1)
    model = od.EDLAE(**SETTINGS).fit(inter)
    model.save(tmp_path / "m.od", updatable=True)
    loaded = od.load(tmp_path / "m.od")
    ledger = past.ledger_of(loaded)
    assert (ledger.places(ledger.hashes.users(inter.user_ids)) >= 0).all()
    assert (ledger.places(ledger.hashes.users(np.array([999]))) < 0).all()


def test_no_guess_about_a_user_can_be_tested_with_a_certificate(tmp_path, monkeypatch):
    """An unkeyed fingerprint of the state before let anyone test who was added to the state after."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"u{u},i{(u * 7 + k) % 11}\n" for u in range(30) for k in range(4))
    (tmp_path / "log.csv").write_text("user,item\n" + rows)
    (tmp_path / "ids.txt").write_text("u3\n")
    fit = ["fit", "log.csv", "--out", "m.od", "--updatable", "--model", "ease", "--l2", "3"]
    forget = ["forget", "m.od", "--users", "ids.txt", "--events", "log.csv", "--certificate", "c.json"]
    kept = []
    for _ in range(2):
        assert cli.main(fit) == 0
        assert cli.main(forget) == 0
        kept.append(json.loads((tmp_path / "c.json").read_text()))
    for name in ("nonce", "before", "after", "subject"):
        assert kept[0][name] != kept[1][name]
    allowed = {
        "action", "users", "n_users", "n_items", "residual", "tolerance", "weight_error", "proof", "objective_gap",
        "nonce", "before", "after", "subject", "model", "file", "time", "offdiag_version",
    }  # fmt: skip
    assert set(kept[0]) == allowed
    assert kept[0]["weight_error"] == 0 or np.log10(kept[0]["weight_error"]) % 1 == pytest.approx(0, abs=1e-9)


def test_forget_can_be_repeated_once_it_is_certified(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(
        "user,item\n" + "".join(f"u{u},i{(u + k) % 7}\n" for u in range(9) for k in range(3))
    )
    (tmp_path / "ids.txt").write_text("u3\n")
    assert cli.main(["fit", "log.csv", "--out", "m.od", "--updatable", "--l2", "3"]) == 0
    forget = ["forget", "m.od", "--users", "ids.txt", "--events", "log.csv"]
    assert cli.main([*forget, "--certificate", "c.json"]) == 0
    first = (tmp_path / "c.json").read_bytes()
    assert cli.main([*forget, "--certificate", "c.json"]) == 0
    assert (tmp_path / "c.json").read_bytes() == first
    capsys.readouterr()
    assert cli.main(forget) == 2
    assert "forgotten already" in capsys.readouterr().err
    (tmp_path / "ids.txt").write_text("u4\n")
    assert cli.main([*forget, "--certificate", "c.json"]) == 0
    assert (tmp_path / "c.json").read_bytes() != first
