"""Schemas as their columns, each with its type."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

TEXT, BYTES, BOOLEAN, TIME = StringType(), BinaryType(), BooleanType(), TimestampType()
INT, LONG = IntegerType(), LongType()
TEXTS = ArrayType(TEXT)


def struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in columns.items()])
