"""The schemas of a scheduler as files of the site, and the reference pages that it shows of them."""

import json
from importlib.metadata import version
from pathlib import Path

from lingua_scheduler.console import message_reference
from lingua_scheduler.console.reference import Reference
from tools.docs import documents

# Where the examples of the reference call.
_BASE_URL = "http://localhost:5010"
_MARK = "<!-- downloads -->"
_PAGE = "schemas.md"


def write(folder: Path) -> None:
    """As a scheduler serves them, and under the same names, so that the links between them are right."""
    here = version("lingua-scheduler")
    target = folder / "schemas"
    target.mkdir()
    rows = []
    for path, text in documents().items():
        (target / path.name).write_text(text, "utf-8")
        rows.append(f'<a href="schemas/{path.name}" download>{path.name}</a>')
    openapi = json.loads((target / "openapi.json").read_text("utf-8"))
    for name, page in (("docs", Reference(openapi).page(_BASE_URL)), ("messages", message_reference.page(here))):
        (target / f"{name}.html").write_text(_linked(page), "utf-8")
    shown = '<a href="schemas/docs.html">HTTP operations</a>, <a href="schemas/messages.html">WebSocket messages</a>'
    told = f"Of release {here}: {', '.join(rows)}. Reference pages: {shown}."
    page_file = folder / _PAGE
    text = page_file.read_text("utf-8")
    assert _MARK in text
    page_file.write_text(text.replace(_MARK, told), "utf-8")


def _linked(page: str) -> str:
    """Here the pages are files beside each other, and nothing can be tried."""
    for there, here in (
        ("../docs/messages", "messages.html"),
        ("docs/messages", "messages.html"),
        ('<a href="../docs/browse">search and try</a><br>', ""),
        ('<a href="docs/browse">search and try</a><br>', ""),
        ('href="../docs"', 'href="docs.html"'),
        ('href="docs"', 'href="docs.html"'),
        ('href="../', 'href="'),
    ):
        page = page.replace(there, here)
    return page
