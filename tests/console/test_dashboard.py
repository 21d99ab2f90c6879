"""The files of the dashboard: how they are served, and that both languages say the same."""

import json
import re
from importlib.resources import files
from typing import Any

import aiohttp
import pytest

from tests.support.peers import Field

FOLDER = files("lingua_scheduler.console").joinpath("assets/dashboard")
SCRIPTS = {file.name: file.read_text("utf-8") for file in FOLDER.iterdir() if file.name.endswith(".js")}
ENGLISH, CHINESE = (json.loads(FOLDER.joinpath(name).read_text("utf-8")) for name in ("en.json", "zh.json"))
PLACEHOLDER = re.compile(r"{(\w+)}")


async def fetched(peers: Field, path: str, **more: Any) -> aiohttp.ClientResponse:
    async with aiohttp.ClientSession() as http:
        async with http.get(f"http://127.0.0.1:{peers.port}{path}", allow_redirects=False, **more) as response:
            await response.read()
            return response


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/dashboard", "text/html"),
        ("/dashboard/style.css", "text/css"),
        ("/dashboard/main.js", "text/javascript"),
        ("/dashboard/zh.json", "application/json"),
        ("/dashboard/icon.svg", "image/svg+xml"),
    ],
)
async def test_a_file_is_served_with_its_type_and_may_load_nothing_from_elsewhere(
    peers: Field, path: str, kind: str
) -> None:
    response = await fetched(peers, path)
    assert (response.status, response.content_type, response.charset) == (200, kind, "utf-8")
    assert response.headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-cache"


async def test_a_file_that_is_known_is_not_sent_again(peers: Field) -> None:
    first = await fetched(peers, "/dashboard/main.js")
    again = await fetched(peers, "/dashboard/main.js", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status == 304
    other = await fetched(peers, "/dashboard/main.js", headers={"If-None-Match": '"another"'})
    assert other.status == 200


async def test_only_files_of_the_dashboard_are_served(peers: Field) -> None:
    for path in ("/dashboard/nothing.js", "/dashboard/..%2Freference.css", "/dashboard/%2Fetc%2Fpasswd"):
        assert (await peers.get(path))[0] == 404
    assert (await peers.post("/dashboard"))[0] == 405


async def test_the_address_with_a_slash_leads_to_the_page(peers: Field) -> None:
    response = await fetched(peers, "/dashboard/")
    assert (response.status, response.headers["Location"]) == (308, "../dashboard")


async def test_the_front_page_names_the_dashboard(peers: Field) -> None:
    _, page = await peers.get("/")
    assert "/dashboard" in page


# Words


def test_both_languages_say_the_same_things_about_the_same_values() -> None:
    assert sorted(ENGLISH) == sorted(CHINESE)
    # `n` only chooses between one and many, which Chinese need not.
    for key, words in ENGLISH.items():
        named = [set(PLACEHOLDER.findall(text)) - {"n"} for text in (words, CHINESE[key])]
        assert named[0] == named[1], key


def test_every_word_the_page_asks_for_is_there_and_every_word_is_asked_for() -> None:
    whole = "\n".join(SCRIPTS.values())
    asked = set(re.findall(r'"([a-z_]+(?:\.\w+)*)"', whole))
    called = set(re.findall(r'\bt\("([a-z_.]+)"', whole))
    assert called <= set(ENGLISH), called - set(ENGLISH)
    # Those that are put together from a code or a name.
    prefixes = set(re.findall(r"`([a-z_]+\.)\$\{", whole))
    unused = {key for key in ENGLISH if key not in asked and not key.startswith(tuple(prefixes))}
    assert not unused


def test_no_script_makes_markup_of_text() -> None:
    for name, script in SCRIPTS.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script), name


def test_nothing_comes_from_another_server() -> None:
    for file in FOLDER.iterdir():
        addresses = set(re.findall(r"(?:https?:)?//[\w.]+\.\w+", file.read_text("utf-8")))
        assert addresses <= {"http://www.w3.org"}, file.name
