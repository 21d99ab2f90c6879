"""Renders the AsyncAPI document as a readable page, as `reference` does with the HTTP operations."""

import json
from collections.abc import Iterator
from functools import cache
from html import escape

from lingua_scheduler.console.schema_tables import LINKS, Document, SchemaTables, inline, row, whole_page
from lingua_scheduler.protocol.schema import document


@cache
def page(version: str) -> str:
    return _Writer(document(version)).page()


class _Writer:
    def __init__(self, described: Document) -> None:
        self._described = described
        self._messages: Document = described["components"]["messages"]
        self._tables = SchemaTables(described["components"]["schemas"])

    def page(self) -> str:
        return whole_page(self._described["info"], "WebSocket messages", self._contents(), self._directions())

    def _named(self) -> Iterator[tuple[str, Document, list[str]]]:
        """Each direction with its messages, by their names in the document."""
        for name, operation in self._described["operations"].items():
            refs = [ref["$ref"].removeprefix("#/channels/") for ref in operation["messages"]]
            yield name, operation, [ref.replace("/messages/", ".") for ref in refs]

    def _contents(self) -> Iterator[str]:
        # This page is one level deeper than the other.
        yield from (link.replace('href="', 'href="../') for link in LINKS)
        for name, operation, messages in self._named():
            yield f"<h2>{escape(operation['summary'])}</h2><ul>"
            for message in messages:
                yield f'<li><a href="#{name}.{_tag(message)}">{escape(_tag(message))}</a></li>'
            yield "</ul>"

    def _directions(self) -> Iterator[str]:
        for name, operation, messages in self._named():
            address = self._described["channels"][name.partition(".")[0]]["address"]
            yield f"<h2>{escape(operation['summary'])} <code>{escape(address)}</code></h2>"
            for message in messages:
                yield from self._message(f"{name}.{_tag(message)}", self._messages[message])

    def _message(self, anchor: str, message: Document) -> Iterator[str]:
        yield f'<article id="{anchor}"><h3><code>{escape(message["name"])}</code></h3>'
        if "x-layout" in message:
            yield f"<p>{inline(message['description'])}</p><h4>Layout</h4><table>"
            for field in message["x-layout"]:
                yield row(
                    field["name"], field["encoding"], f"`{field['const']:#04x}`" if "const" in field else "", False
                )
            yield "</table></article>"
            return
        payload = message["payload"]
        if payload.get("description"):
            yield f"<p>{inline(' '.join(payload['description'].split()))}</p>"
        yield f"<h4>Fields</h4>{self._tables.fields(payload, 0, marks_needed=True)}"
        example = json.dumps(self._tables.example(payload), ensure_ascii=False)
        yield f"<h4>At least</h4><pre>{escape(example)}</pre></article>"


def _tag(message: str) -> str:
    return message.partition(".")[2]
