"""Finds the files that the installed pyspark brings."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gateway.core.errors import SetupError


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupError("pyspark is not installed here; `pip install '.[local]'` in the repository")
    return Path(spec.origin).parent


def spark_jars() -> Path:
    return spark_home() / "jars"
