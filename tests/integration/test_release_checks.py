"""The chart's own end-to-end checks against a mesh that runs: a signed packet passes, a forged one gets no answer."""

from __future__ import annotations

from types import ModuleType

import pytest

from gateway.core.errors import SetupError
from tests.helm.chart import CHART, module_at
from tests.integration.mesh import TestMesh


@pytest.fixture
def check(mesh: TestMesh, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = module_at(CHART / "files" / "check.py")
    monkeypatch.setattr(module, "CONFIG", mesh.config_file)
    return module


def test_a_signed_packet_comes_back(check: ModuleType) -> None:
    check.probe(30)


def test_a_forged_one_does_not(check: ModuleType) -> None:
    with pytest.raises(SetupError) as silence:
        check.probe(3, forged=True)
    assert "no signed event came through" in str(silence.value)
