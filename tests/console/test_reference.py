"""The page for people: all of the document, readable without a network."""

import json
import re
import shlex
from html import unescape
from typing import Any

import msgspec
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.console.openapi import document
from lingua_scheduler.console.operations import Call, Operation
from lingua_scheduler.console.reference import Reference
from lingua_scheduler.domain.access.scopes import OPEN
from lingua_scheduler.protocol.http import Answer, Body
from lingua_scheduler.protocol.uploads import FORM
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.store import Store
from tests.support.peers import Field

OPERATIONS = Scheduler(Settings(), Store("redis://nowhere", key_prefix="lingua")).operations
DOCUMENT = document(OPERATIONS, "1.2.3")
PAGE = Reference(DOCUMENT).page("http://host:5010")
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: f"{o.method} {o.path}")


def part(operation: Operation) -> str:
    """What the page says of one operation."""
    name = DOCUMENT["paths"][operation.path][operation.method.lower()]["operationId"]
    found = re.search(rf'<article id="{name}">.*?</article>', PAGE, re.DOTALL)
    assert found is not None
    return unescape(found[0])


@each_operation
def test_an_operation_is_told_whole(operation: Operation) -> None:
    told = part(operation)
    assert operation.summary in told
    body = None if operation.media else operation.body
    assert all(f"<code>{name}</code>" in told for name in operation.media if name != FORM)
    structs = [struct for struct in (operation.answer, body, operation.query) if struct is not None]
    fields = [field.encode_name for struct in structs for field in msgspec.structs.fields(struct)]
    assert [name for name in (*operation.names, *fields) if f"<code>{name}</code>" not in told] == []
    assert [known for known in operation.all_problems if known.code not in told or str(known.status) not in told] == []


@each_operation
def test_its_example_can_be_sent_as_it_is(operation: Operation) -> None:
    found = re.search(r"<pre>(.*?)</pre>", part(operation), re.DOTALL)
    assert found is not None
    words = shlex.split(found[1])
    assert words[0] == "curl"
    assert any(
        word.startswith(("http://host:5010/v1/", "http://host:5010/api/v1/", "http://host:5010/.well-known/"))
        and "{" not in word
        for word in words
    )
    assert ("--data-binary" in words) == bool(operation.media)
    assert ("-d" in words) == (operation.body is not None and not operation.media)
    if operation.body is not None and not operation.media:
        msgspec.json.decode(words[words.index("-d") + 1], type=operation.body)


@pytest.mark.parametrize("base_url", ["http://host:5010", "https://[::1]:443", "http://<b>'&\"$(x)"])
def test_examples_call_where_they_are_told_to_whatever_that_is(base_url: str) -> None:
    shown = Reference(DOCUMENT).page(base_url)
    examples = re.findall(r"<pre>(.*?)</pre>", shown, re.DOTALL)
    assert len(examples) == len(OPERATIONS)
    assert all(any(word.startswith(f"{base_url}/") for word in shlex.split(unescape(one))) for one in examples)
    assert "<b>" not in shown
    assert "\0" not in shown


def test_it_needs_nothing_from_elsewhere() -> None:
    assert "<script" not in PAGE
    assert re.findall(r'(?:src|href)="(?!#|docs|[\w.]+\.json|data:,)[^"]*"', PAGE) == []
    assert re.findall(r"url\(|@import", PAGE) == []


def test_it_suits_phones_and_dark_rooms() -> None:
    assert 'name="viewport"' in PAGE
    assert "prefers-color-scheme: dark" in PAGE


class Markup(Body, kw_only=True):
    text: str = "<b>"


class Nothing(Answer, kw_only=True):
    pass


def test_what_the_code_says_is_shown_not_obeyed() -> None:
    async def handle(_: Call[Any, Any]) -> Nothing:
        return Nothing()

    operation = Operation(
        method="POST",
        path="/v1/x",
        needs=OPEN,
        tag="<i>",
        summary="<script>alert(1)</script>",
        handle=handle,
        body=Markup,
        answer=Nothing,
    )
    shown = Reference(document([operation], "1")).page("http://host")
    assert "<script>" not in shown
    assert "&lt;i&gt;" in shown


def test_a_query_is_told_as_parameters() -> None:
    class Filter(Body, kw_only=True):
        state: str
        limit: int = 10

    async def handle(_: Call[Any, Any]) -> Nothing:
        return Nothing()

    operation = Operation(
        method="GET",
        needs=OPEN,
        path="/v1/jobs",
        tag="jobs",
        summary="Jobs",
        handle=handle,
        query=Filter,
        answer=Nothing,
    )
    told = document([operation], "1")
    parameters = told["paths"]["/v1/jobs"]["get"]["parameters"]
    assert [(one["name"], one["in"], one["required"]) for one in parameters] == [
        ("state", "query", True),
        ("limit", "query", False),
    ]
    assert "Filter" not in told["components"]["schemas"]


async def test_a_scheduler_serves_both_documents(peers: Field) -> None:
    status, found = await peers.get("/openapi.json")
    assert (status, found["openapi"]) == (200, "3.1.0")
    assert json.dumps(found["paths"]) == json.dumps(DOCUMENT["paths"])
    status, shown = await peers.get("/docs")
    assert status == 200
    assert f"http://127.0.0.1:{peers.port}/v1/status" in shown
