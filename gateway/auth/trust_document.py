"""The trust store's file as something to be changed: its own words, not what they mean.

`${...}` references stay as they are written, so that no secret moves into the file; of comments those above the first
key are kept. A change is written beside the file and then takes its place: whoever reads sees the old keys or the new,
never a half. Only what reads back without a fault is written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from gateway.auth import trust_file

_OWNER_ONLY = 0o600
_KEPT_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("bool", "null", "merge"))


class _TextLoader(yaml.SafeLoader):
    """Takes numbers and times for text: 00000001 is a key id, and not one."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - overrides a table of the library's class
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _KEPT_TAGS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@contextmanager
def changing(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the file's data, to be changed in place.

    The file is written when the block ends well. A missing file is an empty one.

    Raises ConfigError where the file is faulty already, or would be.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    trust_file.parse(text, path)
    data: dict[str, Any] = yaml.load(text, _TextLoader) or {}  # noqa: S506 - a SafeLoader with fewer types
    yield data
    body = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=2**16, allow_unicode=True)
    comments = takewhile(lambda line: not line.strip() or line.startswith("#"), text.splitlines(keepends=True))
    changed = "".join(comments) + body
    trust_file.parse(changed, path)
    _replace(path, changed)


def _replace(path: Path, text: str) -> None:
    path = path.resolve()  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            _keep_access(path, file.fileno())
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _keep_access(path: Path, handle: int) -> None:
    """Gives the file the access rights of the one before, else its owner's alone."""
    if not path.exists():
        os.fchmod(handle, _OWNER_ONLY)
        return
    before = path.stat()
    os.fchmod(handle, before.st_mode & 0o777)
    with suppress(PermissionError):
        os.fchown(handle, before.st_uid, before.st_gid)
