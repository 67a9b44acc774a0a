"""What a part cannot start or go on with; each message says what to do."""

from __future__ import annotations


class SetupError(Exception):
    """One line for people: the setting, file or address at fault, and how to go on."""
