"""All targets, by their names."""

from __future__ import annotations

from tests.fuzz.files import file_targets
from tests.fuzz.mesh import mesh_targets
from tests.fuzz.records import record_targets
from tests.fuzz.sessions import session_targets
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target for target in [*mesh_targets(), *session_targets(), *record_targets(), *file_targets()]
}
