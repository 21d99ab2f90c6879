"""Pages for people, as files: what they are served with, and what they may do."""

import re
from importlib.resources import files

import aiohttp
import pytest

from tests.support.peers import Field

FOLDER = files("lingua_scheduler.console").joinpath("assets", "talk")
ROOM = files("lingua_scheduler.console").joinpath("assets", "room")
SHARED = files("lingua_scheduler.console").joinpath("assets", "shared")
FILES = {f"{folder.name}/{entry.name}": entry for folder in (FOLDER, ROOM, SHARED) for entry in folder.iterdir()}


async def fetched(peers: Field, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{peers.port}{path}", headers=headers, allow_redirects=False) as response,
    ):
        return response.status, dict(response.headers), await response.text()


@pytest.mark.parametrize("page", ["talk", "room"])
async def test_a_page_to_talk_on_may_use_the_microphone_and_nothing_from_elsewhere(peers: Field, page: str) -> None:
    status, headers, body = await fetched(peers, f"/{page}")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'self'; connect-src 'self' ws: wss:;")
    assert headers["Permissions-Policy"].startswith("microphone=(self)")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "<style" not in body
    assert not re.search(r"<script(?![^>]*\bsrc=)", body)


@pytest.mark.parametrize(
    ("name", "content_type"),
    [("main.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")],
)
async def test_files_are_served_with_their_type(peers: Field, name: str, content_type: str) -> None:
    status, headers, body = await fetched(peers, f"/talk/{name}")
    assert status == 200
    assert headers["Content-Type"].startswith(content_type)
    assert body == FOLDER.joinpath(name).read_text("utf-8")


async def test_a_copy_that_is_still_right_is_not_sent_again(peers: Field) -> None:
    _, headers, _ = await fetched(peers, "/talk/main.js")
    assert headers["Cache-Control"] == "no-cache"
    status, again, body = await fetched(peers, "/talk/main.js", **{"If-None-Match": headers["Etag"]})
    assert (status, body) == (304, "")
    assert again["Etag"] == headers["Etag"]
    assert (await fetched(peers, "/talk/main.js", **{"If-None-Match": '"other"'}))[0] == 200


@pytest.mark.parametrize("path", ["/talk/nothing.js", "/talk/..%2freference.css", "/talk/index.html/x"])
async def test_nothing_else_is_there(peers: Field, path: str) -> None:
    assert (await fetched(peers, path))[0] == 404


@pytest.mark.parametrize("page", ["dashboard", "talk", "room"])
async def test_what_pages_share_is_served_beside_them(peers: Field, page: str) -> None:
    _, _, body = await fetched(peers, f"/{page}")
    shared = re.findall(r'"(shared/[^"]+)"', body)
    assert set(shared) == {"shared/base.css", "shared/first-paint.js"}
    for path in shared:
        status, headers, _ = await fetched(peers, f"/{path}")
        assert (status, headers["Cache-Control"]) == (200, "no-cache")
        assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert (await fetched(peers, "/shared/types.d.ts"))[0] == 404
    assert (await fetched(peers, "/shared"))[0] == 404


def test_the_script_before_the_first_paint_reads_the_choice_that_the_theme_remembers() -> None:
    prefix = re.search(r'PREFIX = "(.*)"', SHARED.joinpath("storage.js").read_text("utf-8"))
    choice = re.search(r'remember\("(\w+)"', SHARED.joinpath("theme.js").read_text("utf-8"))
    assert prefix is not None
    assert choice is not None
    assert f'getItem("{prefix[1]}{choice[1]}")' in SHARED.joinpath("first-paint.js").read_text("utf-8")


async def test_a_slash_too_many_leads_to_the_page(peers: Field) -> None:
    status, headers, _ = await fetched(peers, "/talk/")
    assert (status, headers["Location"]) == (308, "../talk")


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_page_needs_nothing_from_another_host(name: str) -> None:
    text = FILES[name].read_text("utf-8")
    assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval)\b", text)
