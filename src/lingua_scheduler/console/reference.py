"""Renders the OpenAPI document as a readable page, without scripts or network access."""

import json
import re
import shlex
from collections.abc import Iterator
from html import escape, unescape
from importlib.resources import files
from typing import Any

Document = dict[str, Any]

# A field of a field of a field is as far as a reader follows.
_MAX_DEPTH = 3
_JSON = "application/json"
# Before and after the path of an address in an example; no text has it.
_ADDRESS = "\0"
# What an example says where the document has none: the first that may stand there.
_SAMPLES = ("", "en", "example-1")


class Reference:
    """The page, rendered once; only the host in its examples depends on the request."""

    def __init__(self, document: Document) -> None:
        # In turns: what stands there anyway, and the path of an address.
        self._parts = _Writer(document).page().split(_ADDRESS)

    def page(self, base_url: str) -> str:
        """`base_url` is where the examples call."""
        parts = self._parts.copy()
        parts[1::2] = [escape(shlex.quote(base_url + unescape(path))) for path in parts[1::2]]
        return "".join(parts)


class _Writer:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._schemas: Document = document["components"]["schemas"]

    def page(self) -> str:
        style = files(__package__).joinpath("assets/reference.css").read_text("utf-8")
        info = self._document["info"]
        title = f"{escape(info['title'])} {escape(info['version'])}"
        return (
            "<!doctype html>\n"
            f'<html lang="en"><head><meta charset="utf-8"><title>{title}: HTTP operations</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><style>{style}</style></head><body><div class="page">'
            f"<nav>{''.join(self._contents())}</nav>"
            f"<main><h1>{title}</h1>{_prose(info['description'])}{''.join(self._groups())}</main>"
            "</div></body></html>\n"
        )

    def _tagged(self) -> dict[str, list[tuple[str, str, Document]]]:
        groups: dict[str, list[tuple[str, str, Document]]] = {tag["name"]: [] for tag in self._document["tags"]}
        for path, methods in self._document["paths"].items():
            for method, operation in methods.items():
                groups[operation["tags"][0]].append((method, path, operation))
        return groups

    def _contents(self) -> Iterator[str]:
        yield '<a href="/openapi.json">openapi.json</a>'
        for tag, operations in self._tagged().items():
            yield f"<h2>{escape(tag)}</h2><ul>"
            for method, path, operation in operations:
                yield f'<li><a href="#{operation["operationId"]}">{_verb(method)}{escape(path)}</a></li>'
            yield "</ul>"

    def _groups(self) -> Iterator[str]:
        for tag, operations in self._tagged().items():
            yield f"<h2>{escape(tag)}</h2>"
            for method, path, operation in operations:
                yield from self._operation(method, path, operation)

    def _operation(self, method: str, path: str, operation: Document) -> Iterator[str]:
        yield f'<article id="{operation["operationId"]}"><h3>{_verb(method)}<code>{escape(path)}</code></h3>'
        yield f"<p>{escape(operation['summary'])}. {escape(operation.get('description', ''))}</p>"
        if parameters := operation.get("parameters"):
            yield "<h4>Parameters</h4><table>"
            for parameter in parameters:
                told = f"{parameter['description']} ({parameter['in']})".strip()
                yield _row(parameter["name"], self._kind(parameter["schema"]), told, parameter["required"])
            yield "</table>"
        body = operation.get("requestBody")
        if body:
            yield f"<h4>Body</h4>{self._body(body)}"
        responses = dict(operation["responses"])
        yield f"<h4>Answer</h4>{self._fields(_schema(responses.pop('200')), 0, marks_needed=False)}"
        yield "<h4>Errors</h4><table>"
        for status, response in responses.items():
            if status == "204":
                continue
            for line in response["description"].splitlines():
                code, _, when = line.removeprefix("- ").partition(": ")
                yield f'<tr><td><span class="status">{status}</span> {_prose_inline(code)}</td><td colspan="2">'
                yield f"{_prose_inline(when)}</td></tr>"
        yield f"</table><h4>Example</h4><pre>{escape(self._curl(method, path, operation))}</pre></article>"

    def _body(self, body: Document) -> str:
        if _JSON in body["content"]:
            return self._fields(_schema(body), 0, marks_needed=True)
        return f"<p>{_prose_inline(', '.join(f'`{name}`' for name in body['content']))}</p>"

    def _fields(self, schema: Document, depth: int, *, marks_needed: bool) -> str:
        schema = self._resolved(schema)
        rows: list[str] = []
        for name, field in schema.get("properties", {}).items():
            is_needed = marks_needed and name in schema.get("required", ())
            inner = self._inner(field) if depth < _MAX_DEPTH else None
            more = ""
            if inner is not None:
                nested = self._fields(inner, depth + 1, marks_needed=marks_needed)
                more = f"<details><summary>its fields</summary>{nested}</details>"
            rows.append(_row(name, self._kind(field), field.get("description", ""), is_needed, more))
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

    def _kind(self, schema: Document) -> str:
        """As a reader of JSON would say it; null stands for absent and is not mentioned."""
        if "$ref" in schema:
            return "object"
        if "anyOf" in schema:
            kinds = [self._kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
            return " or ".join(kind for kind in dict.fromkeys(kinds) if not (kind == "integer" and "number" in kinds))
        if "enum" in schema:
            return " or ".join(map(str, schema["enum"]))
        kind = str(schema.get("type", "any JSON"))
        if kind == "array":
            return f"list of {self._kind(schema.get('items', {}))}"
        if schema.get("contentEncoding") == "base64":
            return "base64"
        return "text" if kind == "string" else kind

    def _curl(self, method: str, path: str, operation: Document) -> str:
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", str(parameter["example"]))
        url = f"{_ADDRESS}{path}{_ADDRESS}"
        if "requestBody" not in operation:
            return f"curl {url}" if method == "get" else f"curl -X {method.upper()} {url}"
        if _JSON not in (content := operation["requestBody"]["content"]):
            query = "&".join(f"{one['name']}={_first(one)}" for one in operation["parameters"] if one["required"])
            url = f"{_ADDRESS}{path}?{query}{_ADDRESS}"
            return f"curl {url} \\\n  -H 'Content-Type: {next(iter(content))}' \\\n  --data-binary @speech.wav"
        body = json.dumps(self._example(_schema(operation["requestBody"])), ensure_ascii=False)
        return f"curl {url} \\\n  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"

    def _example(self, schema: Document) -> Any:
        """What must be there, and what has an example."""
        schema = self._resolved(schema)
        if "examples" in schema:
            return schema["examples"][0]
        if "enum" in schema:
            return schema["enum"][0]
        if "properties" in schema:
            needed = schema.get("required", ())
            return {
                name: self._example(field)
                for name, field in schema["properties"].items()
                if name in needed or "examples" in field
            }
        if "anyOf" in schema:
            return self._example(schema["anyOf"][0])
        kind = schema.get("type", "")
        if kind == "string":
            return next((text for text in _SAMPLES if _fits(text, schema)), "")
        if kind in ("integer", "number"):
            return max(schema.get("minimum", 0), 0)
        return {"boolean": True, "array": []}.get(kind, {})


def _fits(text: str, schema: Document) -> bool:
    return len(text) >= schema.get("minLength", 0) and re.search(schema.get("pattern", ""), text) is not None


def _first(parameter: Document) -> str:
    return str(parameter["schema"].get("examples", [""])[0])


def _schema(holder: Document) -> Document:
    found: Document = holder["content"][_JSON]["schema"]
    return found


def _verb(method: str) -> str:
    return f'<span class="verb {method}">{method.upper()}</span> '


def _row(name: str, kind: str, told: str, is_needed: bool, more: str = "") -> str:
    mark = ' <span class="needed" title="must be given">*</span>' if is_needed else ""
    about = f"<td>{escape(kind)}</td><td>{_prose_inline(told)}{more}</td>"
    return f"<tr><td><code>{escape(name)}</code>{mark}</td>{about}</tr>"


def _prose(text: str) -> str:
    return "".join(f"<p>{_prose_inline(part)}</p>" for part in text.split("\n\n"))


def _prose_inline(text: str) -> str:
    """Every other piece between backquotes is code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))
