"""The JSON Schema of a configuration, for editors and for hints about unknown keys."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema
from pydantic_core.core_schema import ModelSchema

from gateway.config.listeners import SPLIT, Link, Listener
from gateway.config.model import Config
from gateway.config.settings import Limits
from gateway.core.address import host_port
from gateway.core.yaml_files.source import Place
from gateway.protocols import protocols

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MODE: JsonSchemaMode = "validation"
_REFERENCE: Schema = {"type": "string", "pattern": r"\$\{"}
_NOT_TEXT = frozenset({"integer", "number", "boolean"})
_FORMS = frozenset({"pattern", "enum", "format"})
_SAID_OF_IT = frozenset({"title", "description", "default"})


class _Described(GenerateJsonSchema):
    """Takes what stands below a field in the source for its description.

    pydantic would do so while it makes the classes, and read all sources at each start of each program.
    """

    def model_schema(self, schema: ModelSchema) -> Schema:
        described = super().model_schema(schema)
        for name, text in _attribute_docstrings(schema["cls"]).items():
            described.get("properties", {}).get(name, {})["description"] = text
        return described


def _attribute_docstrings(model: type[Any]) -> dict[str, str]:
    """Returns what stands below each field of a model, and of the models that it extends."""
    texts: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            (tree,) = ast.parse(dedent(inspect.getsource(each))).body
            for field, below in pairwise(cast(ast.ClassDef, tree).body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        texts[name] = inspect.cleandoc(text)
    return texts


@cache
def json_schema() -> Schema:
    """Returns the schema (draft 2020-12), with each protocol's own options in its listeners and links."""
    specs = sorted(protocols().items())
    models: list[type[BaseModel]] = [Config, *(spec.options for _, spec in specs)]
    refs, top = models_json_schema([(model, _MODE) for model in models], by_alias=True, schema_generator=_Described)
    definitions: Schema = top["$defs"]
    for model in (Listener, Link):
        own = [_endpoint(definitions, model.__name__, name, refs[spec.options, _MODE]) for name, spec in specs]
        definitions[model.__name__] = {"title": model.__name__, "oneOf": own}
    root = definitions.pop("Config")
    whole: Schema = {"$schema": DIALECT, **root, "title": "meshgate.yaml", "$defs": definitions}
    allowed: Schema = _with_references(whole)
    return allowed


def _endpoint(definitions: Schema, kind: str, protocol: str, options: Schema) -> Schema:
    """Returns one kind of listener: common keys, limits and options side by side."""
    common = definitions[kind]
    keys = {name: value for name, value in common["properties"].items() if name not in SPLIT}
    limits = definitions[Limits.__name__]["properties"]
    own = definitions[options["$ref"].rsplit("/", 1)[-1]]
    only = {"const": protocol, "description": keys["protocol"]["description"]}
    return {
        "title": f"{protocol} {kind.lower()}",
        "type": "object",
        "properties": own.get("properties", {}) | limits | keys | {"protocol": only},
        "required": [name for name in common["required"] if name not in SPLIT] + own.get("required", []),
        "additionalProperties": False,
    }


def _with_references(node: Any) -> Any:
    """`${ENV}` may stand for any value, so wherever a number or a text of some form may, such a text may too."""
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    inner = {key: _with_references(value) for key, value in node.items()}
    if isinstance(inner.get("default"), dict) and inner["default"].keys() == {"host", "port"}:
        inner["default"] = host_port(**inner["default"])  # pydantic gives the fields of an address
    if inner.get("type") not in _NOT_TEXT and not (inner.get("type") == "string" and inner.keys() & _FORMS):
        return inner
    described = {key: inner.pop(key) for key in list(inner) if key in _SAID_OF_IT}
    return {**described, "anyOf": [inner, _REFERENCE]}


def known_keys(place: Place, data: Any) -> list[str]:
    """Returns the keys that may stand in the section at `place`."""
    schemas = [json_schema()]
    for step in place:
        data = _at(data, step)
        schemas = [inner for schema in schemas for inner in _inside(schema, step)]
        schemas = [leaf for schema in schemas for leaf in _leaves(schema) if _speaks_of(leaf, data)]
    return [key for schema in schemas for key in schema.get("properties", {})]


def _at(data: Any, step: str | int) -> Any:
    if isinstance(data, Mapping):
        return next((value for key, value in data.items() if str(key) == str(step)), None)
    return data[step] if isinstance(data, list) and isinstance(step, int) and step < len(data) else None


def _inside(schema: Schema, step: str | int) -> Iterator[Schema]:
    if isinstance(step, int):
        inner = schema.get("items")
    else:
        inner = schema.get("properties", {}).get(step) or schema.get("additionalProperties")
    if isinstance(inner, dict):
        yield inner


def _leaves(schema: Schema) -> Iterator[Schema]:
    """Yields the schema with references followed and alternatives told apart."""
    if "$ref" in schema:
        schema = json_schema()["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    branches = schema.get("oneOf") or schema.get("anyOf")
    if branches is None:
        yield schema
    else:
        for branch in branches:
            yield from _leaves(branch)


def _speaks_of(schema: Schema, data: Any) -> bool:
    """A listener's schema is for its own protocol alone."""
    protocol = schema.get("properties", {}).get("protocol", {}).get("const")
    return protocol is None or (isinstance(data, Mapping) and data.get("protocol") in (protocol, None))
