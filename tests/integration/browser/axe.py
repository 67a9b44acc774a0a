"""axe-core in the browser: what keeps people from using a page. Fetched once for this user, from npm.

A machine without npm skips the tests that need it, with that reason. Where npm is there and cannot fetch it, a run of
CI (`CI` is set) fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gateway.local.jars import cache_folder
from tests.integration.browser.chromium import Browser

VERSION = "4.14.1"
FETCH_SECONDS = 120.0
RUN = """axe.run().then(found => JSON.stringify(found.violations.map(
  one => [one.id, one.nodes.map(node => node.target.join(" "))])))"""


def violations(browser: Browser) -> Any:
    """Returns each rule that the page breaks, and the elements that break it."""
    browser.evaluate(f"{_script().read_text()};0")
    return json.loads(browser.evaluate(RUN))


def _script() -> Path:
    if shutil.which("npm") is None:
        pytest.skip("axe-core comes from npm, and there is none on this machine")
    script = cache_folder() / f"axe-core-{VERSION}.min.js"
    if not script.exists():
        try:
            _fetch(script)
        except (OSError, subprocess.SubprocessError) as failed:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"axe-core could not be fetched: {failed}")
    return script


def _fetch(script: Path) -> None:
    """The file appears by one rename."""
    with tempfile.TemporaryDirectory(dir=script.parent) as work:
        command = ["npm", "pack", "--silent", f"axe-core@{VERSION}"]
        subprocess.run(command, cwd=work, check=True, capture_output=True, timeout=FETCH_SECONDS)
        with tarfile.open(next(Path(work).glob("*.tgz"))) as archive:
            archive.extract("package/axe.min.js", work)
        Path(work, "package", "axe.min.js").rename(script)
