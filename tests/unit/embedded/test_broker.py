"""What the embedded broker's own tools say when they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.embedded.broker import Broker
from gateway.embedded.java import Java
from gateway.errors import SetupError


@pytest.mark.parametrize(("said", "told"), [("echo first >&2; echo why >&2", "why"), ("true", "")])
def test_a_storage_that_cannot_be_formatted_is_told_with_the_last_line_of_why(
    tmp_path: Path, said: str, told: str
) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\n{said}\nexit 1\n")
    java.chmod(0o755)
    broker = Broker("127.0.0.1", 1, 2, tmp_path)
    with pytest.raises(SetupError) as failed:
        broker._format(Java(str(java), 21, "test"), "", tmp_path / "server.properties")
    assert str(failed.value) == f"the broker could not format {tmp_path / 'data'}: {told}"
