"""Renders the OpenAPI document as a readable page, without scripts or network access."""

import json
import shlex
from collections.abc import Iterator
from html import escape, unescape

from lingua_scheduler.console.schema_tables import LINKS, Document, SchemaTables, inline, row, whole_page

_JSON = "application/json"
# Before and after the path of an address in an example; no text has it.
_ADDRESS = "\0"


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
        self._tables = SchemaTables(document["components"]["schemas"])

    def page(self) -> str:
        return whole_page(self._document["info"], "HTTP operations", self._contents(), self._groups())

    def _tagged(self) -> dict[str, list[tuple[str, str, Document]]]:
        groups: dict[str, list[tuple[str, str, Document]]] = {tag["name"]: [] for tag in self._document["tags"]}
        for path, methods in self._document["paths"].items():
            for method, operation in methods.items():
                groups[operation["tags"][0]].append((method, path, operation))
        return groups

    def _contents(self) -> Iterator[str]:
        yield from LINKS
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
                yield row(parameter["name"], self._tables.kind(parameter["schema"]), told, parameter["required"])
            yield "</table>"
        body = operation.get("requestBody")
        if body:
            yield f"<h4>Body</h4>{self._body(body)}"
        responses = dict(operation["responses"])
        yield f"<h4>Answer</h4>{self._tables.fields(_schema(responses.pop('200')), 0, marks_needed=False)}"
        yield "<h4>Errors</h4><table>"
        for status, response in responses.items():
            if status == "204":
                continue
            for line in response["description"].splitlines():
                code, _, when = line.removeprefix("- ").partition(": ")
                yield f'<tr><td><span class="status">{status}</span> {inline(code)}</td><td colspan="2">'
                yield f"{inline(when)}</td></tr>"
        yield f"</table><h4>Example</h4><pre>{escape(self._curl(method, path, operation))}</pre></article>"

    def _body(self, body: Document) -> str:
        if _JSON in body["content"]:
            return self._tables.fields(_schema(body), 0, marks_needed=True)
        return f"<p>{inline(', '.join(f'`{name}`' for name in body['content']))}</p>"

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
        body = json.dumps(self._tables.example(_schema(operation["requestBody"])), ensure_ascii=False)
        return f"curl {url} \\\n  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"


def _first(parameter: Document) -> str:
    return str(parameter["schema"].get("examples", [""])[0])


def _schema(holder: Document) -> Document:
    found: Document = holder["content"][_JSON]["schema"]
    return found


def _verb(method: str) -> str:
    return f'<span class="verb {method}">{method.upper()}</span> '
