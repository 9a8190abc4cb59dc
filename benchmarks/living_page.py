"""The section of docs/results.md about models that change after the fit, from results/living.json."""

from __future__ import annotations

from typing import Any

from results_page_parts import Lines, machine, table


def living(found: dict[str, Any]) -> Lines:
    ones = [
        [
            name, one["method"], f"{one['first_seconds']:.2f} s", f"{one['forget_seconds']:.3f} s",
            f"{one['refit_seconds']:.2f} s", f"{one['ratio']:.3f}", f"{one['largest_difference']:.1e}",
            f"{one['estimated_error']:.1e}", "yes" if one["gram_identical"] else "to rounding",
        ]
        for name, one in found["one user"].items()
    ]  # fmt: skip
    files = [
        [
            name, f"{one['bytes'] / 1e6:,.0f} MB", f"{one['unseal_seconds']:.2f} s", f"{one['forget_seconds']:.2f} s",
            f"{one['seal_seconds']:.2f} s", f"{one['plain_seconds']:.2f} s", f"{one['sealed_ratio']:.3f}",
        ]
        for name, one in found["one user"].items()
    ]  # fmt: skip
    many = [
        [
            name, str(run["changes"]), f"{run['seconds']:.0f} s", f"{run['refit_seconds']:.1f} s",
            ", ".join(f"{method} {count}" for method, count in run["methods"].items()), f"{run['drift']:.1e}",
            "yes" if run["gram_identical"] else "no",
        ]
        for name, run in found["many"].items()
    ]  # fmt: skip
    batches = [
        [str(b["users"]), f"{b['items']:,}", b["method"], f"{b['seconds']:.2f} s", f"{b['refit_seconds']:.2f} s",
         f"{b['seconds'] / b['refit_seconds']:.2f}"]
        for b in found["batches"]
    ]  # fmt: skip
    return [
        "## Living models",
        "",
        f"Invented data, {found['users']:,} users × {found['items']:,} items, {found['interactions']:,} interactions; "
        f"on {machine(found['machine'])}. One typical user (70 items) is forgotten, each followed by the check. The "
        "first forget of a model that was just fitted also counts its Gram; the next five, whose median is told, have "
        "it, like a model from an updatable file. A fit on those who are left, in the same run, is the refit (goal: "
        "ratio ≤ 0.05; largest weight difference ≤ 1e-5 in float32, ≤ 1e-12 in float64). Low-rank models that "
        "alternate end in a nearby minimum, not in the same.",
        "",
        *table(
            (
                "model",
                "way",
                "first forget",
                "forget",
                "refit",
                "ratio",
                "largest difference",
                "as estimated",
                "Gram identical",
            ),
            ones,
        ),
        "The same from file to file, as `offdiag forget` does it: the living state is decrypted before and encrypted "
        "after. Next to it, how long the same bytes take to be written in the clear with checksums, as in the first "
        "file format:",
        "",
        *table(("model", "living state", "decrypt", "forget", "encrypt", "in the clear", "ratio to a refit"), files),
        "Users who come and go in a row (goal: drift ≤ 1e-5, Gram identical):",
        "",
        *table(("model", "changes", "time", "one refit", "ways", "drift from a refit", "Gram identical"), many),
        "Several users at once, EDLAE in float32:",
        "",
        *table(("users", "items", "way", "time", "refit", "ratio"), batches),
    ]
