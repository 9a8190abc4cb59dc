"""Settings that are "auto" are resolved on a cluster as on one machine."""

import pytest

import offdiag as od
from offdiag.models import auto

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="needs the extra 'cluster'")


@pytest.mark.parametrize("user_power", [0.0, 0.5])
def test_l2_is_chosen_as_on_one_machine(client, user_power):
    inter = od.synthetic.interactions(1500, 200, 20_000, seed=4)
    parts = od.cluster.read(inter, client=client)
    here = auto.unseen_user_l2(inter.matrix, user_power)
    assert od.cluster.unseen_user_l2(parts, user_power) == pytest.approx(here, rel=1e-6)


def test_auto_is_the_rule_of_the_model(client):
    class Asked(od.EDLAE):
        def _resolve_on_cluster(self, settings, scale):
            return settings | {"dropout": 0.5, "user_power": 0.0, "l2": 2 * scale(0.0, items=50, users=70)}

    inter = od.synthetic.interactions(400, 80, 6000, seed=6)
    parts = od.cluster.read(inter, client=client)
    model = od.cluster.fit_full_rank(Asked(), parts, client=client)
    assert model.settings_["l2"] == 2 * od.cluster.unseen_user_l2(parts, 0.0, items=50, users=70)


def test_auto_without_a_rule_is_refused(mistake, client):
    inter = od.synthetic.interactions(20, 10, 60, seed=0)
    parts = od.cluster.read(inter, client=client)
    said = mistake(od.cluster.auto.resolve, object(), {"l2": "auto", "dropout": 0.5}, parts)
    assert "received auto for l2" in said
