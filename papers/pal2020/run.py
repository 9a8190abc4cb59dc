"""`offdiag reproduce pal2020`, into the folder results beside this file; takes the same options."""

import sys
from pathlib import Path

from offdiag.cli import main

if __name__ == "__main__":
    sys.exit(main(["reproduce", "pal2020", "--out", str(Path(__file__).parent / "results"), *sys.argv[1:]]))
