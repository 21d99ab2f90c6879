"""`lingua keys`, directly in Redis: what it lists, what it ends, and what instances hear of it."""

import asyncio
import json
from typing import Any

import pytest

from lingua_scheduler.domain.access.credentials import tenant_name
from lingua_scheduler.protocol.signals import CredentialsChanged
from lingua_scheduler.store.store import Store
from tests.support.keyed import created, guarded, keys, lingua
from tests.support.servers import RedisProcess
from tests.support.waiting import until

FOUND, SETTINGS, REDIS, NOT_ALLOWED = 1, 2, 3, 8


async def listed(server: RedisProcess, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((await keys(server, "list", "--json", *more)).stdout)["keys"]
    return found


async def test_keys_are_listed_without_their_secrets(server: RedisProcess, store: Store) -> None:
    assert "lingua keys create --admin" in (await keys(server, "list")).stdout
    made = await created(server, "--kind", "service", "--name", "backend", "--tenant", "acme", "--signs")
    (one,) = await listed(server)
    assert (one["id"], one["kind"], one["tenant"], one["name"]) == (made["id"], "service", "acme", "backend")
    assert one["signs"] is True
    people = (await keys(server, "list")).stdout
    shown = await keys(server, "show", made["shown"])
    assert f"lk_sv_{made['id']}" in people
    assert "dispatch:call" in shown.stdout
    kept = (await store.credentials.read()).credentials[made["id"]]
    for secret in (made["key"], kept.digest, kept.signing_key):
        assert secret not in json.dumps(one) + people + shown.stdout + (await keys(server, "show", made["id"])).stdout


async def test_a_revoked_key_opens_nothing_any_more(server: RedisProcess, store: Store) -> None:
    made, other = await created(server, "--admin"), await created(server, "--admin")
    async with guarded(server) as url:
        assert (await lingua("whoami", "--url", url, LINGUA_KEY=made["key"])).exit_code == 0
        revoked = await keys(server, "revoke", made["shown"])
        assert (revoked.exit_code, revoked.stdout) == (0, f"{made['shown']} is revoked\n")

        async def is_refused() -> bool:
            return (await lingua("whoami", "--url", url, LINGUA_KEY=made["key"])).exit_code == NOT_ALLOWED

        # Long before the scheduler would look by itself.
        await until(is_refused)
        assert (await lingua("whoami", "--url", url, LINGUA_KEY=other["key"])).exit_code == 0
    assert [one["id"] for one in await listed(server)] == [other["id"]]
    assert {one["id"]: one["state"] for one in await listed(server, "--all")}[made["id"]] == "revoked"


async def test_all_of_a_tenant_are_ended_and_no_others(server: RedisProcess, store: Store) -> None:
    one = await created(server, "--kind", "service", "--tenant", "acme")
    two = await created(server, "--kind", "client", "--tenant", "acme")
    other = await created(server, "--kind", "client", "--tenant", "globex")
    revoked = json.loads((await keys(server, "revoke", "--all-of", "acme", "--json")).stdout)["revoked"]
    assert {key["id"] for key in revoked} == {one["id"], two["id"]}
    assert [key["id"] for key in await listed(server)] == [other["id"]]
    void = (await store.credentials.read()).revocations
    assert list(void) == [tenant_name("acme")]
    assert void[tenant_name("acme")].before_ms >= two["created_ms"]


async def test_instances_are_told_of_each_change(server: RedisProcess, store: Store) -> None:
    heard: list[CredentialsChanged] = []
    listening = asyncio.create_task(store.signals.listen({CredentialsChanged: heard.append}))
    await store.signals.listening.wait()
    made = await created(server, "--admin")
    await keys(server, "revoke", made["id"])
    await until(lambda: len(heard) == 2)
    assert heard[1].version == await store.credentials.version() > heard[0].version
    listening.cancel()
    await asyncio.wait((listening,))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("revoke",), "name the keys to revoke"),
        (("revoke", "abcdefghijkl", "--all-of", "acme"), "name the keys to revoke"),
        (("revoke", "--all-of", "No Tenant"), "cannot be a tenant"),
        (("revoke", "abcdefghijkl"), "there is no key abcdefghijkl"),
        (("show", "abcdefghijkl"), "there is no key abcdefghijkl"),
        (("show", "abc"), "is not the id of a key"),
    ],
)
async def test_what_cannot_be_done_is_one_sentence(
    server: RedisProcess, store: Store, arguments: tuple[str, ...], words: str
) -> None:
    refused = await keys(server, *arguments)
    assert (refused.exit_code, words in refused.stderr) == (SETTINGS, True), refused.output


async def test_a_whole_key_is_no_argument(server: RedisProcess, store: Store) -> None:
    made = await created(server, "--admin")
    refused = await keys(server, "revoke", made["key"])
    assert (refused.exit_code, "other users of this machine can see arguments" in refused.stderr) == (SETTINGS, True)
    assert made["key"] not in refused.output
    assert made["shown"] in refused.stderr


async def test_while_redis_is_away_nothing_is_revoked() -> None:
    for arguments in (("list",), ("revoke", "abcdefghijkl"), ("create", "--admin")):
        refused = await lingua("keys", *arguments, "--redis-url", "redis://127.0.0.1:1")
        assert (refused.exit_code, refused.stdout) == (REDIS, "")


async def test_typing_errors_are_found_without_asking(server: RedisProcess, store: Store) -> None:
    made = await created(server, "--kind", "metrics")
    good = await lingua("keys", "check", stdin=f" {made['key']}\n")
    assert (good.exit_code, good.stdout) == (0, f"{made['shown']}: a key of kind metrics, without typing errors\n")
    assert json.loads((await lingua("keys", "check", "--json", stdin=made["key"])).stdout)["id"] == made["id"]
    last = "A" if made["key"][-8] != "A" else "B"
    bad = await lingua("keys", "check", stdin=made["key"][:-8] + last + made["key"][-7:])
    assert (bad.exit_code, "typing error" in bad.stderr) == (FOUND, True)
    assert (await lingua("keys", "check", stdin="hello")).exit_code == FOUND
