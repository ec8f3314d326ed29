"""`python -m syndicated` is the command `syndicated`."""

import sys

from syndicated.cli import main

sys.exit(main())
