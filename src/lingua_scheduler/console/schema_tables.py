"""What the reference pages have in common: schemas as tables, and the page around them."""

import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Any

Document = dict[str, Any]

# From one page to the others, relative to /docs: a proxy may add a prefix.
LINKS = (
    '<a href="docs">HTTP operations</a><br><a href="docs/messages">WebSocket messages</a><br>'
    '<a href="docs/browse">search and try</a><br><a href="openapi.json">openapi.json</a><br>'
    '<a href="asyncapi.json">asyncapi.json</a><br><a href="messages.schema.json">messages.schema.json</a>',
)
# A field of a field of a field is as far as a reader follows.
_MAX_DEPTH = 3
# What an example says where the document has none: the first that may stand there.
_SAMPLES = ("", "en", "example-1")


def whole_page(info: Document, subject: str, contents: Iterable[str], groups: Iterable[str]) -> str:
    style = files(__package__).joinpath("assets/reference.css").read_text("utf-8")
    title = f"{escape(info['title'])} {escape(info['version'])}"
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}: {subject}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{style}</style></head><body><div class="page">'
        f"<nav>{''.join(contents)}</nav>"
        f"<main><h1>{title}</h1>{prose(info['description'])}{''.join(groups)}</main>"
        "</div></body></html>\n"
    )


class SchemaTables:
    """`schemas` are those that the others refer to, by name."""

    def __init__(self, schemas: Document) -> None:
        self._schemas = schemas

    def fields(self, schema: Document, depth: int, *, marks_needed: bool) -> str:
        schema = self._resolved(schema)
        rows: list[str] = []
        for name, field in schema.get("properties", {}).items():
            is_needed = marks_needed and name in schema.get("required", ())
            inner = self._inner(field) if depth < _MAX_DEPTH else None
            more = ""
            if inner is not None:
                nested = self.fields(inner, depth + 1, marks_needed=marks_needed)
                more = f"<details><summary>its fields</summary>{nested}</details>"
            rows.append(row(name, self.kind(field), field.get("description", ""), is_needed, more))
        return f"<table>{''.join(rows)}</table>" if rows else "<p>Nothing.</p>"

    def _resolved(self, schema: Document) -> Document:
        if "$ref" not in schema:
            return schema
        found: Document = self._schemas[schema["$ref"].rpartition("/")[2]]
        return found

    def _inner(self, field: Document) -> Document | None:
        """The object inside a field: itself, an item of its list, or one of its alternatives."""
        resolved = self._resolved(field)
        if resolved.get("properties"):
            return resolved
        candidates = [*resolved.get("anyOf", ()), *([resolved["items"]] if resolved.get("items") else ())]
        return next((inner for one in candidates if (inner := self._inner(one)) is not None), None)

    def kind(self, schema: Document) -> str:
        """As a reader of JSON would say it; null stands for absent and is not mentioned."""
        if "$ref" in schema:
            return "object"
        if "anyOf" in schema:
            kinds = [self.kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
            return " or ".join(kind for kind in dict.fromkeys(kinds) if not (kind == "integer" and "number" in kinds))
        if "const" in schema:
            return f'"{schema["const"]}"'
        if "enum" in schema:
            return " or ".join(map(str, schema["enum"]))
        kind = str(schema.get("type", "any JSON"))
        if kind == "array":
            return f"list of {self.kind(schema.get('items', {}))}"
        if schema.get("contentEncoding") == "base64":
            return "base64"
        return "text" if kind == "string" else kind

    def example(self, schema: Document) -> Any:
        """What must be there, and what has an example."""
        schema = self._resolved(schema)
        if "examples" in schema:
            return schema["examples"][0]
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        if "properties" in schema:
            needed = schema.get("required", ())
            return {
                name: self.example(field)
                for name, field in schema["properties"].items()
                if name in needed or "examples" in field
            }
        if "anyOf" in schema:
            return self.example(schema["anyOf"][0])
        kind = schema.get("type", "")
        if kind == "string":
            return next((text for text in _SAMPLES if _fits(text, schema)), "")
        if kind in ("integer", "number"):
            return max(schema.get("minimum", 0), 0)
        return {"boolean": True, "array": []}.get(kind, {})


def _fits(text: str, schema: Document) -> bool:
    return len(text) >= schema.get("minLength", 0) and re.search(schema.get("pattern", ""), text) is not None


def row(name: str, kind: str, told: str, is_needed: bool, more: str = "") -> str:
    mark = ' <span class="needed" title="must be given">*</span>' if is_needed else ""
    about = f"<td>{escape(kind)}</td><td>{inline(told)}{more}</td>"
    return f"<tr><td><code>{escape(name)}</code>{mark}</td>{about}</tr>"


def prose(text: str) -> str:
    return "".join(f"<p>{inline(part)}</p>" for part in text.split("\n\n"))


def inline(text: str) -> str:
    """Every other piece between backquotes is code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))
