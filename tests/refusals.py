"""Tells tests why a call was refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import pytest

from gateway.core.reasons import Reason, Rejected

P = ParamSpec("P")


def reason_of(function: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> Reason:
    """Returns the reason for which a call is refused."""
    with pytest.raises(Rejected) as refused:
        function(*arguments, **named)
    return refused.value.reason
