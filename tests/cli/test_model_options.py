"""The settings of models, as options of their own and by name."""

import pytest

import offdiag as od


@pytest.mark.parametrize(
    ("model", "texts", "expected"),
    [
        ("rdlae", ["max_diagonal=0.2", "item-power=0.5"], {"max_diagonal": 0.2, "item_power": 0.5}),
        ("edlae", ["propensity_power=-0.1", "l2=auto"], {"propensity_power": -0.1, "l2": "auto"}),
        ("slim", ["l1=2", "l2=20", "non-negative=false"], {"l1": 2, "l2": 20, "non_negative": False}),
        ("item-knn", ["neighbours=7", "shrink = 3.5"], {"neighbours": 7, "shrink": 3.5}),
        ("wmf", ["rank=4", "alpha=2"], {"rank": 4, "alpha": 2}),
        ("spectral", ["shrink=ridge:l2=30", "rank=5"], {"shrink": od.spectral.Ridge(l2=30), "rank": 5}),
    ],
)
def test_any_setting_can_be_given_by_its_name(text_of, folder, model, texts, expected):
    words = [word for text in texts for word in ("--set", text)]
    text_of("fit", "train.csv", "-o", "set.od", "--model", model, "--seed", 5, *words)
    params = od.load(folder / "set.od").get_params()
    assert {name: params[name] for name in expected} == expected
    assert params.get("seed", 5) == 5


def test_an_option_serves_every_model_that_has_the_setting(text_of, folder):
    text_of("fit", "train.csv", "-o", "knn.od", "--model", "item-knn", "--shrink", 4, "--user-power", 0)
    assert od.load(folder / "knn.od").settings_["shrink"] == 4.0
    text_of("fit", "train.csv", "-o", "knn.od", "--item-power", 0.5)
    assert od.load(folder / "knn.od").settings_["item_power"] == 0.5


def test_every_option_reaches_the_model(text_of):
    options = {"rank": 5, "iterations": 3, "starts": 2, "products": "data", "seed": 7, "kept-weight": 0.25, "l2": 9}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    text_of("fit", "train.csv", "-o", "all.od", "--model", "low-rank-edlae", "--dtype", "float64", *words)
    params = od.load("all.od").get_params()
    assert params["dtype"] == "float64"
    for name, value in options.items():
        assert params[name.replace("-", "_")] == value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "magic"], "edlae"),
        (["--model", "low-rank"], "low-rank-edlae"),
        (["--dropout", "1"], "dropout"),
        (["--dropout", "much"], "auto"),
        (["--l2", "-3"], "l2"),
        (["--kept-weight", "2"], "kept_weight"),
        (["--dtype", "float16"], "float32"),
        (["--storage", "sparse"], "packed"),
        (["--seed", "-1"], "--seed"),
        (["--nonsense"], "--nonsense"),
        (["--model", "ease", "--dropout", "0.5"], "does not take --dropout"),
        (["--model", "ease", "--rank", 5], "ease does not take --rank; it takes --l2"),
        (["--model", "edlae", "--neighbours", "3"], "edlae does not take --neighbours"),
        (["--model", "popularity", "--l2", "5"], "no settings"),
        (["--model", "low-rank-dlae", "--storage", "dense"], "does not take --storage"),
        (["--model", "low-rank-dlae", "--iterations", 2], "does not take --iterations"),
        (["--model", "weight-decay", "--starts", 2], "does not take --starts"),
        (["--model", "weight-decay", "--dropout", 0.5], "does not take --dropout"),
        (["--model", "low-rank-edlae", "--rank", 0], "rank must be a whole number of at least 1, received 0"),
        (["--model", "low-rank-edlae", "--rank", "many"], "--rank"),
        (["--model", "low-rank-edlae", "--iterations", -1], "iterations"),
        (["--model", "low-rank-edlae", "--starts", 0], "starts"),
        (["--model", "low-rank-edlae", "--products", "magic"], "products"),
        (["--model", "item-knn", "--shrink", "hard"], "shrink must be a number"),
        (["--model", "sparse", "--neighbours", "0"], "neighbours must be a whole number of at least 1"),
        (["--model", "sparse", "--max-bytes", "lots"], "--max-bytes takes a size"),
        (["--model", "sparse", "--max-bytes", "10"], "max_bytes must be at least"),
        (["--set", "l2"], "NAME=VALUE"),
        (["--set", "l2=5", "--set", "l2=6"], "twice"),
        (["--set", "l2=5", "--l2", "6"], "give it once"),
        (["--set", "magic=5"], "has no setting 'magic'; it has dropout, l2"),
        (["--set", "seed=5"], "--seed"),
        (["--set", "l2=low"], "l2 must be a number"),
    ],
)
def test_a_wrong_setting_is_one_line_and_leaves_the_old_model(untouched, options, words):
    assert words in untouched("fit", "train.csv", "--out", "model.od", *options)
