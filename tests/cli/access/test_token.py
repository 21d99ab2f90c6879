"""Tokens made, looked at and revoked with commands, at a scheduler that asks for keys."""

import json
from pathlib import Path

import aiohttp
import pytest

from tests.support.keyed import created, home, lingua, minting
from tests.support.servers import RedisProcess
from tests.support.terminals import terminal
from tests.support.waiting import until

SETTINGS, SCHEDULER, NOT_ALLOWED, FOUND = 2, 5, 8, 1


async def status_of(url: str, token: str) -> int:
    async with aiohttp.ClientSession() as http:
        headers = {"Authorization": f"Bearer {token}"}
        async with http.get(f"{url.replace('ws', 'http', 1)}/v1/whoami", headers=headers) as response:
            return response.status


async def test_a_token_is_made_looked_at_and_revoked(server: RedisProcess, tmp_path: Path) -> None:
    service = await created(server, "--kind", "service", "--tenant", "acme")
    admin = await created(server, "--admin")
    mine = home(tmp_path) | {"LINGUA_KEY": service["key"]}
    async with minting(server) as url:
        wish = ("--sub", "user-7", "--ttl", "1h", "--pair", "en:pt", "--pair", "*:fr", "--max-sessions", "2")
        made = await lingua("token", "create", *wish, "--url", url, **mine)
        # The token alone, and no hint where there is no terminal.
        assert (made.exit_code, made.stderr, made.stdout.count("\n")) == (0, "", 1)
        token = made.stdout.strip()
        assert await status_of(url, token) == 200

        looked = await lingua("token", "inspect", "--json", "--url", url, stdin=token, **home(tmp_path))
        told = json.loads(looked.stdout)
        assert (looked.exit_code, told["word"], told["by"]) == (0, "valid", f"the scheduler at {url}")
        limits = {"tenant": "acme", "grants": ["session"], "pairs": ["en:pt", "*:fr"], "max_sessions": 2}
        assert told["claims"]["lingua"] == limits
        assert told["claims"]["exp"] - told["claims"]["iat"] == 3600
        people = await lingua("token", "inspect", "--url", url, stdin=token, **home(tmp_path))
        for words in ("user       user-7", "tenant     acme", "pairs      en:pt *:fr", "verdict    valid"):
            assert words in people.stdout
        assert all(len(line) <= 80 for line in people.stdout.splitlines())
        signature = token.rsplit(".", 1)[1]
        assert signature not in looked.output + people.output

        # A service may make tokens, but not revoke them.
        refused = await lingua("token", "revoke", "--url", url, stdin=token, **mine)
        assert refused.exit_code == NOT_ALLOWED
        assert await status_of(url, token) == 200
        file = tmp_path / "token.txt"
        file.write_text(token + "\n")
        boss = home(tmp_path) | {"LINGUA_KEY": admin["key"]}
        ended = await lingua("token", "revoke", "--token-file", str(file), "--url", url, **boss)
        assert (ended.exit_code, ended.stdout) == (0, f"token {told['claims']['jti']} is revoked\n")
        assert await status_of(url, token) == 401
        after = await lingua("token", "inspect", "--token-file", str(file), "--url", url, **home(tmp_path))
        assert (after.exit_code, "UNAUTHENTICATED" in after.stdout) == (FOUND, True)


async def test_a_token_for_rooms_is_for_sessions_too(server: RedisProcess, tmp_path: Path) -> None:
    service = await created(server, "--kind", "service", "--tenant", "acme")
    mine = home(tmp_path) | {"LINGUA_KEY": service["key"]}
    async with minting(server) as url:
        for arguments, limits in (
            (("--grant", "room"), {"grants": ["session", "room"]}),
            (("--room", "483920"), {"grants": ["session", "room"], "room": {"code": "483920", "role": "speaker"}}),
            (
                ("--grant", "dispatch", "--room", "483920", "--listen"),
                {"grants": ["session", "dispatch", "room"], "room": {"code": "483920", "role": "listener"}},
            ),
        ):
            made = await lingua("token", "create", "--sub", "user-7", *arguments, "--url", url, **mine)
            assert (made.exit_code, made.stderr) == (0, "")
            looked = await lingua("token", "inspect", "--json", "--url", url, stdin=made.stdout, **home(tmp_path))
            told = json.loads(looked.stdout)
            assert told["word"] == "valid"
            assert {name: told["claims"]["lingua"].get(name) for name in limits} == limits
        people = await lingua("token", "inspect", "--url", url, stdin=made.stdout, **home(tmp_path))
        assert "room       483920 as listener" in people.stdout


async def test_a_token_is_revoked_by_its_id_and_key(server: RedisProcess, tmp_path: Path) -> None:
    admin = await created(server, "--admin")
    mine = home(tmp_path) | {"LINGUA_KEY": admin["key"]}
    async with minting(server) as url:
        made = await lingua("token", "create", "--sub", "u", "--tenant", "acme", "--json", "--url", url, **mine)
        told = json.loads(made.stdout)
        assert (told["tenant"], told["key_id"]) == ("acme", admin["id"])
        arguments = ("token", "revoke", told["token_id"], "--key", told["key_id"], "--json", "--url", url)
        ended = await lingua(*arguments, **mine)
        assert (ended.exit_code, json.loads(ended.stdout)["token_id"]) == (0, told["token_id"])
        assert await status_of(url, told["token"]) == 401
        unknown = await lingua("token", "revoke", "x", "--key", "000000000000", "--url", url, **mine)
        assert (unknown.exit_code, "UNKNOWN_KEY" in unknown.stderr) == (SCHEDULER, True)


async def test_who_may_not_make_tokens_is_told_so(server: RedisProcess, tmp_path: Path) -> None:
    viewer = await created(server, "--kind", "operator", "--role", "viewer")
    service = await created(server, "--kind", "service", "--tenant", "acme")
    async with minting(server) as url:
        for key, more in ((viewer, ()), (service, ("--tenant", "beta"))):
            refused = await lingua(
                "token", "create", "--sub", "u", *more, "--url", url, LINGUA_KEY=key["key"], **home(tmp_path)
            )
            assert (refused.exit_code, "eyJ" in refused.stdout) == (NOT_ALLOWED, False)
            assert "PERMISSION_DENIED" in refused.stderr
            assert key["key"] not in refused.stderr
        without = await lingua("token", "create", "--sub", "u", "--url", url, **home(tmp_path))
        assert (without.exit_code, "lingua login --url" in without.stderr) == (NOT_ALLOWED, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create",), "--sub"),
        (("create", "--sub", "u", "--pair", "zh"), "there cannot be such a token"),
        (("create", "--sub", "u", "--ttl", "soon"), "not a duration"),
        (("create", "--sub", "u", "--grant", "everything"), "everything"),
        (("create", "--sub", "u", "--listen"), "--listen needs --room CODE"),
        (("create", "--sub", "u", "--room", "abc"), "six digits"),
        (("revoke", "eyJh.eyJz.c2ln"), "other users of this machine can see arguments"),
        (("revoke", "an-id", "--token-file", "f"), "not both"),
        (("inspect", "--token-file", "/nonexistent/token"), "cannot be read: No such file"),
    ],
)
async def test_mistakes_are_explained(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    refused = await lingua("token", *arguments, **home(tmp_path))
    assert (refused.exit_code, words in refused.stderr) == (SETTINGS, True)


async def test_on_a_terminal_a_hint_tells_how_to_revoke_it(server: RedisProcess, tmp_path: Path) -> None:
    service = await created(server, "--kind", "service")
    async with minting(server) as url:
        environment = home(tmp_path) | {"LINGUA_KEY": service["key"], "LINGUA_URL": url}
        with terminal() as screen:
            process = await screen.run("lingua_scheduler", "token", "create", "--sub", "user-7", **environment)
            await process.wait()
            await until(lambda: f"--key {service['id']}" in screen.shown and screen.shown.count("eyJ") >= 1)
        assert "lingua token revoke " in screen.shown
        assert all(len(line) <= 80 for line in screen.shown.splitlines() if not line.startswith("eyJ"))
