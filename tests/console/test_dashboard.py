"""The files of the dashboard: how they are served, and that both languages say the same."""

import json
import re
from importlib.resources import files
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.domain.watching.alarms import CODES, Sight, alarms, lost_lately
from lingua_scheduler.domain.watching.changes import KINDS, changes
from lingua_scheduler.domain.watching.picture import Alarm, Event
from tests.support import scenes
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
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script), (
            name
        )


def test_nothing_comes_from_another_server() -> None:
    for file in FOLDER.iterdir():
        addresses = set(re.findall(r"(?:https?:)?//[\w.]+\.\w+", file.read_text("utf-8")))
        assert addresses <= {"http://www.w3.org"}, file.name


# What the scheduler says

# Made by the page from other values.
MADE = {"pair": {"src", "tgt"}, "silent": {"seen_at_ms"}, "alarm": {"code"}}


def test_every_alarm_can_be_said_in_both_languages() -> None:
    found = every_alarm()
    known = {key.removeprefix("alarm.") for key in ENGLISH if key.startswith("alarm.")} - {"more"}
    assert {alarm.code for alarm in found} == known == CODES
    for alarm in found:
        assert f"step.{alarm.code}" in ENGLISH
        for words in (ENGLISH, CHINESE):
            assert needs(words[f"alarm.{alarm.code}"] + words[f"step.{alarm.code}"]) <= set(alarm.values)


def test_every_event_can_be_said_in_both_languages() -> None:
    found = every_event()
    known = {key.removeprefix("event.") for key in ENGLISH if key.startswith("event.")} - {"more", "leader.gone"}
    assert {event.kind for event in found} == known == KINDS
    for event in found:
        for words in (ENGLISH, CHINESE):
            assert needs(words[f"event.{event.kind}"]) <= set(event.values)


def needs(words: str) -> set[str]:
    names = set(PLACEHOLDER.findall(words)) - {"n"}
    return {value for name in names for value in MADE.get(name, {name})}


def every_alarm() -> list[Alarm]:
    """A day on which everything goes wrong; without nodes and without Redis other things are."""
    silent = scenes.node("silent", seen_at_ms=0, alive_until_ms=3_000)
    lone = scenes.node("lone", ("de", "fr"), held=4, free=0)
    sick = scenes.node("sick", state="quarantined", free=None)
    last = scenes.node("last", ("pl", "cs"), state="quarantined")
    sight = Sight(
        at_ms=10_000,
        memory_used=0.9,
        nodes=[silent, lone, sick, last],
        pairs=scenes.pairs_of([lone]),
        instances=[
            scenes.instance("i-1", is_alive=False),
            scenes.instance("i-2", seals="parked aa"),
            scenes.instance("i-3"),
        ],
        dead_letters=2,
        unprotected=["i-1"],
        expiring={"lk_sv_a": 1},
        unreadable=["leases"],
        jobs_ended=100,
        jobs_failed=50,
        p95_ms=60_000.0,
        wanted=["ja:ko:speech", "pl:cs:speech", "da:sv:speech"],
        expected={"ja:ko"},
        lost=lost_lately({}, [scenes.node("lost")], (), 9_000),
        waiting={"de:fr:speech": 3},
        needed_in_rooms={"de:uk:text": 2},
        guessing={"acme": 60},
        certificates={"i-2": 9_000},
        refused_certificates=["i-3"],
    )
    return [
        *alarms(sight, []),
        *alarms(sight._replace(nodes=[]), []),
        *alarms(sight._replace(is_redis_away=True), []),
    ]


def every_event() -> list[Event]:
    one, other = scenes.node("one"), scenes.node("other", ("de", "fr"))
    stays, sick = scenes.node("stays"), scenes.node("stays", state="quarantined", free=None)
    here = [scenes.instance(name) for name in ("left", "died")]
    gone = [scenes.instance("died", is_alive=False), scenes.instance("came")]
    before = scenes.picture([one, stays], instances=here, alarms=[scenes.alarm("leader.none")])
    after = scenes.picture(
        [other, sick],
        instances=gone,
        leader="came",
        dead_letters=3,
        failures=[scenes.job(1)],
        alarms=[scenes.alarm("nodes.none", nodes=1)],
    )
    return changes(before, after)
