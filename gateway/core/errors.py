"""The errors with which a part cannot start or go on. Each message says what to do."""

from __future__ import annotations

import traceback


class SetupError(Exception):
    """One line for people: the setting, file or address at fault, and how to go on."""


def place_of(fault: Exception) -> str:
    """Returns where it happened. Its text is left out, which may quote what a peer sent."""
    at = traceback.extract_tb(fault.__traceback__)[-1]
    return f"{type(fault).__name__} in {at.name}, line {at.lineno} of {at.filename.rpartition('/')[2]}"
