"""Run where offdiag and its dependencies are installed, and nothing else: the main job, in Python and as commands."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main():
    begin = time.perf_counter()
    import offdiag as od

    seconds = time.perf_counter() - begin
    import numpy as np

    source = Path(od.__file__)
    assert "site-packages" in source.parts, f"expected the installed package, found {source}"
    log = od.synthetic.interactions(300, 60, 4_000, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        for name in (
            "EASE",
            "EDLAE",
            "SparseEDLAE",
            "LowRankEDLAE",
            "Spectral",
            "WMF",
            "ItemKNN",
            "SLIM",
            "Popularity",
        ):
            settings = {"rank": 8} if name in ("LowRankEDLAE", "Spectral", "WMF") else {}
            model = getattr(od, name)(**settings).fit(log)
            model.save(Path(folder, name))
            loaded = od.load(Path(folder, name), verify=True)
            assert np.array_equal(loaded.recommend(log, k=5).items, model.recommend(log, k=5).items), name
        split = od.split.strong(log, held_out=0.2, seed=0)
        od.evaluate(od.EASE().fit(split.train), split.test).to_dict()
        living = od.EASE(l2=9.0).fit(log)
        living.forget(log.select_users([3]))
        living.save(Path(folder, "living"), updatable=True, key=Path(folder, "keys"))
        matrix = log.matrix.tocoo()
        rows = [f"{u},{log.item_ids[i]}\n" for u, i in zip(matrix.row, matrix.col, strict=True)]
        Path(folder, "log.csv").write_text("user,item\n" + "".join(rows), encoding="utf-8")
        for words in (
            ("fit", "log.csv", "--out", "shop.od", "--updatable", "--key-file", "keys"),
            ("recommend", "shop.od", "--history", str(log.item_ids[0]), "-k", "3"),
            ("evaluate", "log.csv", "shop.od"),
            ("info", "shop.od"),
            ("update", "shop.od", "log.csv", "--key-file", "keys"),
            ("--version",),
        ):
            ran = subprocess.run([sys.executable, "-m", "offdiag", *words], cwd=folder, capture_output=True, text=True)
            assert ran.returncode == 0, f"{words}: {ran.stderr}"
    print(f"smoke test passed; import {seconds:.3f} s")


if __name__ == "__main__":
    main()
