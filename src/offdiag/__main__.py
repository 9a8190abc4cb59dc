"""``python -m offdiag`` runs ``offdiag``."""

import sys

from offdiag.cli import main

if __name__ == "__main__":
    sys.exit(main())
