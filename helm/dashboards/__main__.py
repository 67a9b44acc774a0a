from __future__ import annotations

import sys

from helm.dashboards.files import main

sys.exit(main(sys.argv[1:]))
