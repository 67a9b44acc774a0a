"""Sets how hard property tests try: HYPOTHESIS_PROFILE is `dev` (if not set), `ci` or `nightly`.

No profile has a deadline: how long an example takes says more about the machine's other work than about the code.
"""

from __future__ import annotations

import logging
import os
import signal

from hypothesis import settings

NIGHTLY_EXAMPLES = 2_000
"""Twenty times those of a day; the slowest example costs some 10 ms, and a test has 300 s."""

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=NIGHTLY_EXAMPLES, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_runtest_setup() -> None:
    """Puts back what a verb of the command line sets for its whole process, which here is that of the tests.

    SIGINT may also be ignored from the start, as a shell has it for what it starts in the background.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.getLogger().setLevel(logging.WARNING)
