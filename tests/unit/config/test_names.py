"""What `gateway.config` offers, and what asking for it costs."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import gateway.config


@pytest.mark.parametrize("name", gateway.config.__all__)
def test_every_name_leads_to_something_of_its_own_and_not_to_a_module(name: str) -> None:
    assert not isinstance(getattr(gateway.config, name), type(gateway.config))


def test_no_name_is_a_modules_name_too() -> None:
    """For importing such a module would put it in the name's place."""
    package = Path(gateway.config.__file__).parent
    assert not {path.stem for path in package.glob("*.py")} & set(gateway.config.__all__)


def test_a_name_that_is_none_is_told() -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(importlib.import_module("gateway.config"), "bo" + "gus")
    assert "bogus" in str(refused.value)


def test_reading_yaml_alone_does_not_import_the_models() -> None:
    code = "import sys, gateway.config.source, gateway.config.faults; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"pydantic", "gateway.protocols", "gateway.config.model"} & set(done.stdout.split())
