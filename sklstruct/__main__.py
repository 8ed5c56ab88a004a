"""``python -m sklstruct``: the command `sklstruct`."""

import sys

from ._cli import main

if __name__ == "__main__":
    sys.exit(main())
