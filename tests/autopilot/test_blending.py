"""The last stage: a blend of different kinds of models, kept only if it wins on other users."""

import numpy as np

import offdiag as od
from offdiag.autopilot import blending
from offdiag.autopilot.outcome import COMPLETE, Autopilot, Row
from offdiag.models import blend_shares
from tests.autopilot.races import entrant, race


def enter(found, family, model, kind):
    """A fitted model as a row."""
    found.entrants[family] = entrant(family, type(model)(), kind=kind)
    return found.add(Row(family, type(model).__name__, COMPLETE, fit_seconds=0.1), model)


def test_a_blend_is_kept_only_if_it_wins_on_other_users():
    """Two halves of what there is to know, against a model and a copy of itself."""
    found = race(n=1500)
    X = found.split.train.matrix.copy()
    left, right = X.copy(), X.copy()
    left.data[X.indices % 2 == 0] = 1e-6
    right.data[X.indices % 2 == 1] = 1e-6
    for family, part in (("odd", left), ("even", right)):
        enter(found, family, od.EASE(l2=50.0, user_power=0.0).fit(part), family)
    blending.run(found)
    (made,) = (row for row in found.rows if row.family == "blend")
    assert found.best is made
    assert made.parts == ["odd", "even"] or made.parts == ["even", "odd"]
    assert "gained" in found.notes[-1]
    again = found.fit_row(made, found.split.train, None)
    assert again.settings_["shares"] == made.settings["shares"]
    said = Autopilot(
        model=again, chosen=made, rows=tuple(found.rows), metric="ndcg@20", serve="known", sights=(),
        test={"chosen": made.result, "automatic": made.result}, notes=(), seconds=1.0, stopped="done",
    )  # fmt: skip
    assert said.command is None
    assert eval(said.repeat, {"od": od, "data": found.split.train}).settings_["parts"] == again.settings_["parts"]

    alone = race()
    model = od.EASE().fit(alone.split.train)
    enter(alone, "one", model, "one")
    enter(alone, "same", model, "same")
    blending.run(alone)
    assert all(row.family != "blend" for row in alone.rows)
    assert "was not kept" in alone.notes[-1]


def test_no_user_decides_about_shares_that_it_chose(monkeypatch):
    found = race(n=400)
    models = {l2: od.EASE(l2=l2).fit(found.split.train) for l2 in (5.0, 5000.0)}
    for l2, model in models.items():
        enter(found, f"l2 {l2}", model, str(l2))
    parts = [row.settings["l2"] for row in blending.choose_parts(found)]
    chose, gaps = [], []
    some, test = blend_shares.Candidates.some, blending.paired_t_test
    monkeypatch.setattr(
        blend_shares.Candidates, "some", lambda self, users: (chose.append(users), some(self, users))[1]
    )
    given = iter([np.array([1.0, 0.0]), np.array([0.0, 1.0])])  # each half wants another part alone
    monkeypatch.setattr(blend_shares, "best_shares", lambda _: next(given))
    monkeypatch.setattr(blending, "paired_t_test", lambda gap: (gaps.append(gap), test(-abs(gap) - 1))[1])
    blending.run(found)
    (gap,), (first, second) = gaps, chose
    assert (first ^ second).all()
    alone = [od.evaluate(models[l2], found.split.validation, found.metric).per_user[found.metric] for l2 in parts]
    assert (alone[0] != alone[1])[first].any()
    assert (alone[0] != alone[1])[second].any()
    np.testing.assert_array_equal(gap[second], 0.0)  # judged by the first part, which the first half chose
    np.testing.assert_array_equal(gap[first], (alone[1] - alone[0])[first])


def test_a_blend_has_one_part_of_a_kind_and_none_that_recommends_otherwise():
    found = race()
    train = found.split.train
    for family, l2, kind in (("a", 50.0, "sharp"), ("b", 60.0, "sharp"), ("c", 70.0, "smooth")):
        enter(found, family, od.EASE(l2=l2).fit(train), kind)
    parts = blending.choose_parts(found)
    assert {found.entrants[row.family].kind for row in parts} == {"sharp", "smooth"}
    assert len(parts) == 2
    found.also = {"groups": object()}
    assert blending.choose_parts(found) == []
