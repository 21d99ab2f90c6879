"""Holds frames against the published document: as much of JSON Schema as it uses, and not a keyword more."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from tests.support.peers import Frame

Schema = dict[str, Any]

_REMARKS = {"title", "description", "default", "examples"}
_KEYWORDS = {"$ref", "anyOf", "const", "type", "minimum", "maximum", "contentEncoding"} | {
    *("required", "properties", "additionalProperties", "items", "maxLength", "maxItems", "maxProperties"),
    *("enum", "minItems", "minProperties", "pattern"),
}
_LENGTHS: dict[type, str] = {str: "maxLength", list: "maxItems", dict: "maxProperties"}
_LEAST: dict[type, str] = {list: "minItems", dict: "minProperties"}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


class Wire:
    def __init__(self, document: Schema) -> None:
        self.document = document

    def resolve(self, ref: str) -> Any:
        """What a `$ref` points to; KeyError when to nothing."""
        root, *steps = ref.split("/")
        assert root == "#", ref
        found: Any = self.document
        for step in steps:
            found = found[step]
        return found

    def messages(self, operation: str) -> dict[str, Schema]:
        """The messages of `session.receive`, `node.send` and so on, by the name they have in their channel."""
        refs = [link["$ref"] for link in self.document["operations"][operation]["messages"]]
        return {ref.rpartition("/")[2]: self.resolve(self.resolve(ref)["$ref"]) for ref in refs}

    def faults(self, operation: str, frame: Frame) -> list[str]:
        """What is wrong with this frame; nothing when it is as published."""
        message = self.messages(operation).get(frame["type"])
        if message is None:
            return [f"{frame['type']}: not a message of {operation}"]
        return list(self._faults(message["payload"], frame, frame["type"]))

    def _faults(self, schema: Schema, value: Any, at: str) -> Iterator[str]:
        # A keyword that were passed over would make every frame look right.
        assert schema.keys() <= _KEYWORDS | _REMARKS, schema
        if "$ref" in schema:
            yield from self._faults(self.resolve(schema["$ref"]), value, at)
        if "anyOf" in schema and all(any(self._faults(option, value, at)) for option in schema["anyOf"]):
            yield f"{at}: none of what it may be"
        if "const" in schema and value != schema["const"]:
            yield f"{at}: not {schema['const']}"
        if "enum" in schema and value not in schema["enum"]:
            yield f"{at}: none of {schema['enum']}"
        if "type" not in schema:
            return
        if not isinstance(value, _TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
            yield f"{at}: no {schema['type']}"
        elif isinstance(value, str | list | dict) and len(value) > schema.get(_LENGTHS[type(value)], len(value)):
            yield f"{at}: too long"
        elif isinstance(value, list | dict) and len(value) < schema.get(_LEAST[type(value)], 0):
            yield f"{at}: too short"
        elif isinstance(value, dict):
            yield from (f"{at}.{name}: missing" for name in schema.get("required", ()) if name not in value)
            for name, part in value.items():
                of_part = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
                yield from self._faults(of_part, part, f"{at}.{name}")
        elif isinstance(value, list):
            for index, part in enumerate(value):
                yield from self._faults(schema.get("items", {}), part, f"{at}[{index}]")
        elif isinstance(value, str):
            if schema.get("contentEncoding") == "base64" and not _is_base64(value):
                yield f"{at}: no base64"
            if not re.search(schema.get("pattern", ""), value):
                yield f"{at}: not of the pattern"
        elif value is not None and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{at}: out of range"


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True
