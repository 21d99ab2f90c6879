"""Rooms with the JavaScript client, at a real scheduler."""

from pathlib import Path

from tests.support.breaking import Proxy
from tests.support.js_client import JsClient, js_client
from tests.support.peers import Field


def said(client: JsClient, kind: str) -> list[dict[str, object]]:
    return [event for event in client.of("room") if event["kind"] == kind]


async def listed(client: JsClient, *names: str) -> None:
    def are_there() -> bool:
        found = said(client, "members")
        return bool(found) and [one["name"] for one in found[-1]["members"]] == list(names)  # type: ignore[attr-defined]

    await client.until(are_there)


async def done(client: JsClient, verb: str, count: int = 1) -> dict[str, object]:
    def answers() -> list[dict[str, object]]:
        return [one for one in client.told if one.get("did") == verb]

    await client.until(lambda: len(answers()) >= count)
    return answers()[count - 1]


async def entered(client: JsClient) -> str:
    client.do(create={"name": "Ann", "language": "en"})
    return str((await done(client, "create"))["value"])


async def test_what_one_says_is_read_by_the_other_once_also_after_a_break(built: Path, peers: Field) -> None:
    await peers.node()
    async with Proxy(peers.port) as proxy:
        async with js_client(built, peers.port) as ann, js_client(built, proxy.port, source="zh", target="en") as bob:
            code = await entered(ann)
            bob.do(join=[code, {"name": "Bob", "language": "zh"}])
            await listed(ann, "Ann", "Bob")
            ann.do(utterance=None)
            await bob.until(lambda: len(said(bob, "said")) == 1)
            proxy.is_cut = True
            ann.do(utterance=None)
            await ann.until(lambda: len(said(ann, "said")) == 2)
            proxy.is_cut = False
            await bob.until(lambda: len(said(bob, "said")) == 2)
            ann.do(utterance=None, room=["write", "hello"])
            await bob.until(lambda: len(said(bob, "said")) == 3 and said(bob, "message"))
            await ann.until(lambda: len(said(ann, "said")) == 3)
            assert [one["seq"] for one in said(bob, "said")] == [one["seq"] for one in said(ann, "said")]
            assert {one["name"] for one in said(bob, "said")} == {"Ann"}
            assert [one["isOwn"] for one in said(ann, "said")] == [True] * 3
            assert said(bob, "message")[0]["text"] == "hello"
            assert bob.of("resumed")


async def test_refusals_have_a_type_and_the_session_goes_on(built: Path, peers: Field) -> None:
    async with js_client(built, peers.port) as client:
        client.do(join=["999999", {}])
        refused = await done(client, "join")
        assert (refused["error"], refused["code"]) == ("RoomRefused", "ROOM_NOT_FOUND")
        assert str(refused["message"]).isascii()
        assert await entered(client)
        await listed(client, "Ann")


async def test_the_host_locks_and_closes_and_a_guest_is_only_counted(built: Path, peers: Field) -> None:
    async with js_client(built, peers.port) as ann, js_client(built, peers.port) as guest:
        code = await entered(ann)
        guest.do(join=[code, {"listenOnly": True}])
        await ann.until(lambda: said(ann, "members") and said(ann, "members")[-1]["guests"] == 1)
        ann.do(room=["lock", True])
        assert "error" not in await done(ann, "room")
        ann.do(room=["close"])
        assert "error" not in await done(ann, "room", 2)
        await guest.next("roomOver")
        assert said(guest, "ended")


async def test_one_that_leaves_speaks_outside_of_the_room_again(built: Path, peers: Field) -> None:
    await peers.node()
    async with js_client(built, peers.port) as client:
        await entered(client)
        client.do(utterance=None)
        await client.until(lambda: said(client, "said"))
        client.do(room=["leave"])
        await client.next("roomOver")
        client.do(read=None, utterance=None, finish=None)
        assert await client.over() == {"over": True}
        assert client.outcomes == [1]
