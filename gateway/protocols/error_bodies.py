"""The bodies of errors with which a mesh answers requests itself."""

from __future__ import annotations

import json

from gateway.core.content import from_json
from gateway.core.reasons import MeshError, Rejected


def error_body(error: MeshError, message: str) -> bytes:
    """Returns the body of the mesh's own answer to a request. Its content type is JSON."""
    return json.dumps({"code": str(error), "message": message}, separators=(",", ":")).encode()


def mesh_error_in(body: bytes) -> MeshError | None:
    """Returns the mesh error that `error_body` wrote into this body, if it wrote it."""
    try:
        fields = from_json(body)
        return MeshError(fields["code"]) if isinstance(fields, dict) else None
    except (Rejected, KeyError, ValueError):
        return None
