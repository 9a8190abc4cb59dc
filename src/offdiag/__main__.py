"""``python -m offdiag`` is ``offdiag``."""

import sys

if __name__ == "__main__":
    try:
        from offdiag.cli import main
    except KeyboardInterrupt:  # while the libraries load
        print("offdiag: interrupted; nothing was changed", file=sys.stderr)
        sys.exit(130)
    sys.exit(main())
