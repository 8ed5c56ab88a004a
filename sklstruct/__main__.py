"""``python -m sklstruct``: the command `sklstruct`."""

import sys

from ._cli import main

sys.exit(main())
