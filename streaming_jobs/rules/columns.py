"""The columns of a rule's result in the form that an event takes them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType

from gateway.core.content import JSON, TEXT

_STRUCTURES = (StructType, MapType, ArrayType, VariantType)


def as_event_columns(result: DataFrame) -> DataFrame:
    """Returns the columns of an event: subject, body (text or binary), content_type, origin, hops.

    A column is null if the rule says nothing about it.

    A structure is JSON, and any other value its text. A rule need not say the content type of either.
    """
    types = {field.name: field.dataType for field in result.schema}
    body, content_type = _body(types.get("body"))
    own_type = F.col("content_type") if "content_type" in types else F.lit(None).cast("string")
    return result.select(
        F.col("subject"),
        body.alias("body"),
        F.coalesce(own_type, F.lit(content_type)).alias("content_type"),
        _or_null(types, "origin", "string").alias("origin"),
        _or_null(types, "hops", "int").alias("hops"),
    )


def _body(type_: DataType | None) -> tuple[Column, str | None]:
    body = F.col("body")
    if type_ is None:
        return F.lit(None).cast("string"), None
    if isinstance(type_, BinaryType):
        return body, None
    if isinstance(type_, _STRUCTURES):
        return F.to_json(body), JSON
    return (body, None) if isinstance(type_, StringType) else (body.cast("string"), TEXT)


def _or_null(types: dict[str, DataType], name: str, as_type: str) -> Column:
    return F.col(name).cast(as_type) if name in types else F.lit(None).cast(as_type)
