"""Texts as the command line takes them: a pattern, and text that can be written and sent."""

from __future__ import annotations

import click

from gateway.core.reasons import Rejected
from gateway.core.subjects import check_pattern


def pattern(text: str) -> str:
    """Returns the text, if it is a pattern of subjects. Raises BadParameter."""
    try:
        check_pattern(text)
    except Rejected as wrong:
        raise click.BadParameter(f"{text}: {wrong.detail}") from None
    return text


def utf8(text: str) -> str:
    """Returns the text, if it is UTF-8. A terminal with another character set sends something else."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{text} is no UTF-8") from None
    return text
