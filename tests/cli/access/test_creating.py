"""`lingua keys create` and `rotate`: which keys can be made, and that their secret is shown once."""

import json
from pathlib import Path

import msgspec
import pytest

from lingua_scheduler.domain.access.credentials import Credential
from lingua_scheduler.domain.access.scopes import Role
from lingua_scheduler.services.access.signing import signing_key_of
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.key_texts import KeyKind, KeyText
from tests.support.keyed import created, keys, lingua
from tests.support.servers import RedisProcess

SETTINGS = 2
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


async def kept(store: Store, key_id: str) -> Credential:
    return (await store.credentials.read()).credentials[key_id]


async def test_standard_output_has_the_key_alone(server: RedisProcess, store: Store) -> None:
    made = await keys(server, "create", "--admin")
    key = KeyText.parse(made.stdout.removesuffix("\n"))
    assert "operator admin of all tenants" in made.stderr
    assert key.secret not in made.stderr
    found = await kept(store, key.id)
    assert (found.kind, found.role, found.tenant, found.digest) == (KeyKind.OPERATOR, Role.ADMIN, "*", key.digest)
    assert found.created_by.startswith("redis:")


async def test_every_right_is_kept(server: RedisProcess, store: Store) -> None:
    client = await created(
        server,
        *("--kind", "client", "--origin", "https://a.example", "--origin", "https://b.example", "--pair", "zh:en"),
        *("--pair", "*:fr", "--network", "192.0.2.0/24", "--expires", "90d", "--name", "kiosk", "--tenant", "acme"),
    )
    found = await kept(store, client["id"])
    assert (found.origins, found.pairs) == (("https://a.example", "https://b.example"), ("zh:en", "*:fr"))
    assert (found.networks, found.name, found.tenant) == (("192.0.2.0/24",), "kiosk", "acme")
    assert found.expires_ms - found.created_ms == 90 * DAY_MS
    node = await created(server, "--kind", "node", "--node-id", "gpu-7", "--slots", "8")
    assert ((await kept(store, node["id"])).node_id, (await kept(store, node["id"])).max_slots) == ("gpu-7", 8)
    service = await created(server, "--kind", "service", "--act-for", "acme", "--act-for", "*", "--signs")
    found = await kept(store, service["id"])
    assert (found.act_for, found.signing_key) == (("acme", "*"), signing_key_of(KeyText.parse(service["key"]).secret))
    assert (await kept(store, (await created(server, "--kind", "enrol"))["id"])).kind is KeyKind.ENROLMENT


@pytest.mark.parametrize(
    ("kind", "path"), [("node", "/ws/node"), ("client", "/ws/session"), ("service", "/ws/session")]
)
async def test_an_address_for_a_peer_that_takes_only_one(
    server: RedisProcess, store: Store, kind: str, path: str
) -> None:
    made = await keys(server, "create", "--kind", kind, "--url", "https://host.example/base")
    address, _, key = made.stdout.strip().partition("?access_token=")
    assert address == f"wss://host.example/base{path}"
    assert KeyText.parse(key).id in (await store.credentials.read()).credentials


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name the --kind"),
        (("--admin", "--kind", "node"), "--admin stands for"),
        (("--admin", "--tenant", "acme"), "--admin stands for"),
        (("--kind", "operator"), "an operator needs a --role"),
        (("--kind", "node", "--role", "admin"), "--role is for --kind operator"),
        (("--kind", "node", "--origin", "https://a"), "--origin is for --kind client"),
        (("--kind", "client", "--signs"), "--signs is for --kind service"),
        (("--kind", "client", "--slots", "1"), "--slots is for --kind node or enrol"),
        (("--kind", "client", "--private"), "--private is for --kind node or enrol"),
        (("--kind", "client", "--tenant", "*"), "--tenant '*' is for operators"),
        (("--kind", "client", "--tenant", "Big Co"), "cannot be a tenant"),
        (("--kind", "client", "--pair", "zh"), "is not a language pair"),
        (("--kind", "client", "--network", "here"), "--network"),
        (("--kind", "client", "--name", "x" * 129), "this cannot be a key"),
        (("--kind", "node", "--node-id", "a b"), "cannot be a node id"),
        (("--kind", "client", "--expires", "soon"), "is not a duration"),
        (("--kind", "client", "--expires", "0d"), "--expires must be longer than nothing"),
        (("--admin", "--url", "wss://host"), "must not be in a URL"),
        (("--kind", "metrics", "--url", "wss://host"), "must not be in a URL"),
        (("--kind", "node", "--url", "ftp://host"), "is not an address"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    server: RedisProcess, store: Store, arguments: tuple[str, ...], words: str
) -> None:
    refused = await keys(server, "create", *arguments)
    assert (refused.exit_code, refused.stdout) == (SETTINGS, ""), refused.output
    assert words in " ".join(refused.stderr.split())
    assert not (await store.credentials.read()).credentials


async def test_the_first_key_needs_no_running_scheduler(tmp_path: Path) -> None:
    made = await lingua("keys", "create", "--admin", "--json", "--data-dir", str(tmp_path))
    assert made.exit_code == 0, made.output
    again = await lingua("keys", "create", "--admin", "--json", "--data-dir", str(tmp_path))
    assert json.loads(again.stdout)["id"] != json.loads(made.stdout)["id"]
    # The server has ended with the command.
    listed = await lingua("keys", "list", "--data-dir", str(tmp_path))
    assert (listed.exit_code, "no embedded Redis is running" in listed.stderr) == (3, True)


async def test_a_rotated_key_has_the_same_rights_and_the_old_one_an_end(server: RedisProcess, store: Store) -> None:
    old = await created(server, "--kind", "service", "--tenant", "acme", "--signs", "--expires", "30d", "--name", "api")
    rotated = await keys(server, "rotate", old["shown"], "--overlap", "2h", "--json")
    told = json.loads(rotated.stdout)
    before, after = await kept(store, old["id"]), await kept(store, told["id"])
    same = msgspec.structs.replace(
        before,
        **{name: getattr(after, name) for name in ("id", "digest", "signing_key", "created_ms", "expires_ms")},
        successor="",
    )
    assert same == after
    assert after.signing_key not in ("", before.signing_key)
    assert after.expires_ms - after.created_ms == 30 * DAY_MS
    assert (before.successor, before.revoked_ms) == (after.id, 0)
    assert before.expires_ms - after.created_ms == 2 * HOUR_MS
    assert KeyText.parse(told["key"]).digest == after.digest
    assert (told["replaces"], told["replaced_ends_ms"]) == (old["id"], before.expires_ms)


async def test_without_overlap_the_old_key_ends_at_once(server: RedisProcess, store: Store) -> None:
    old = await created(server, "--kind", "client")
    assert (await keys(server, "rotate", old["id"], "--overlap", "0s")).exit_code == 0
    assert (await kept(store, old["id"])).revoked_ms
    refused = await keys(server, "rotate", old["id"])
    assert (refused.exit_code, "was replaced by" in refused.stderr) == (SETTINGS, True)
    ended = await created(server, "--kind", "client")
    assert (await keys(server, "revoke", ended["id"])).exit_code == 0
    assert "has ended; create another key" in (await keys(server, "rotate", ended["id"])).stderr
    assert "in Redis; lingua keys list shows them" in (await keys(server, "rotate", "abcdefghijkl")).stderr


async def test_an_overlap_does_not_make_a_key_live_longer(server: RedisProcess, store: Store) -> None:
    old = await created(server, "--kind", "client", "--expires", "1h")
    assert (await keys(server, "rotate", old["id"], "--overlap", "2d")).exit_code == 0
    assert (await kept(store, old["id"])).expires_ms == old["expires_ms"]
