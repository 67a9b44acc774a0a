"""Sets how hard property tests try: HYPOTHESIS_PROFILE is `dev` (if not set), `ci` or `nightly`.

No profile has a deadline: how long an example takes says more about the machine's other work than about the code.

A shell lets what it starts in the background ignore SIGINT, and the programs that tests start would inherit that.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

NIGHTLY_EXAMPLES = 2_000
"""Twenty times those of a day; the slowest example costs some 10 ms, and a test has 300 s."""

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=NIGHTLY_EXAMPLES, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

signal.signal(signal.SIGINT, signal.default_int_handler)
