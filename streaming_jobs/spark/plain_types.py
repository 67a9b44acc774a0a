"""Types of what Python functions return to Spark, when it consists of what pickle and the JVM both know.

pyspark then need not walk through each value again, which would cost as much as all the rest (32 of 65 µs for a raw
record of one frame).
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StructType


class PlainArray(ArrayType):
    """An array that is handed over as it is."""

    def needConversion(self) -> bool:  # noqa: N802 - pyspark's name
        return False

    @classmethod
    def typeName(cls) -> str:  # noqa: N802 - pyspark's name
        return "array"


class PlainStruct(StructType):
    """A structure that is handed over as it is: a tuple."""

    def needConversion(self) -> bool:  # noqa: N802 - pyspark's name
        return False

    @classmethod
    def typeName(cls) -> str:  # noqa: N802 - pyspark's name
        return "struct"
