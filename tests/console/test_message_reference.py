"""The page of WebSocket messages: all of the AsyncAPI document, readable without a network."""

import json
import re
from html import unescape

import pytest

from lingua_scheduler.console.message_reference import page
from lingua_scheduler.protocol.schema import document
from tests.support.peers import Field
from tests.support.schemas import Wire

DOCUMENT = document("1.2.3")
WIRE = Wire(DOCUMENT)
PAGE = page("1.2.3")
MESSAGES = [(operation, tag) for operation in DOCUMENT["operations"] for tag in WIRE.messages(operation)]


def part(operation: str, tag: str) -> str:
    found = re.search(rf'<article id="{re.escape(f"{operation}.{tag}")}">.*?</article>', PAGE, re.DOTALL)
    assert found is not None
    return unescape(found[0])


@pytest.mark.parametrize(("operation", "tag"), MESSAGES)
def test_a_message_is_told_whole(operation: str, tag: str) -> None:
    told, message = part(operation, tag), WIRE.messages(operation)[tag]
    fields = [field["name"] for field in message.get("x-layout", ())] or list(message["payload"]["properties"])
    assert fields
    assert [name for name in fields if f"<code>{name}</code>" not in told] == []
    assert f'<a href="#{operation}.{tag}">' in PAGE


@pytest.mark.parametrize(("operation", "tag"), [one for one in MESSAGES if not one[1].startswith("binary_")])
def test_its_example_is_as_published(operation: str, tag: str) -> None:
    found = re.search(r"<pre>(.*?)</pre>", part(operation, tag), re.DOTALL)
    assert found is not None
    assert WIRE.faults(operation, json.loads(found[1])) == []


def test_it_needs_nothing_from_elsewhere() -> None:
    assert "<script" not in PAGE
    assert not re.findall(r'(?:src|href)="(?:[a-z]+:)?//', PAGE)
    assert 'name="viewport"' in PAGE


async def test_its_links_to_other_pages_of_a_scheduler_lead_somewhere(peers: Field) -> None:
    for address in ("/docs", "/docs/messages"):
        _, shown = await peers.get(address)
        links = [link for link in re.findall(r'href="([^"#]+)"', shown) if link != "data:,"]
        assert len(links) == 6
        for link in links:
            target = re.sub(r"^/docs/\.\./", "/", f"{address.rpartition('/')[0]}/{link}")
            assert (await peers.get(target))[0] == 200, target
