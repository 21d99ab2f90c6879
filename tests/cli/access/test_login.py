"""Logging in to a scheduler that asks for keys, and what refused commands say."""

import json
import stat
from pathlib import Path

import pytest

from lingua_scheduler import cli
from tests.support.keyed import created, ended, guarded, home, lingua
from tests.support.servers import RedisProcess

SETTINGS, SCHEDULER, NOT_ALLOWED = 2, 5, 8
SOUND = str(Path(cli.__path__[0]) / "assets" / "sample-en.wav")


async def test_a_key_is_checked_stored_used_and_forgotten(server: RedisProcess, tmp_path: Path) -> None:
    admin = await created(server, "--admin")
    async with guarded(server) as url:
        refused = await lingua("status", "--url", url, **home(tmp_path))
        assert refused.exit_code == NOT_ALLOWED
        assert f"log in with: lingua login --url {url}" in refused.stderr
        logged_in = await lingua("login", "--url", url, stdin=admin["key"] + "\n", **home(tmp_path))
        assert logged_in.exit_code == 0, logged_in.output
        assert "as operator with the role admin of all tenants" in logged_in.stdout
        assert admin["key"] not in logged_in.output
        file = tmp_path / "lingua" / "credentials.toml"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert (await lingua("status", "--url", url, **home(tmp_path))).exit_code in (0, 1, 6)
        shown = await lingua("whoami", "--url", url, "--json", **home(tmp_path))
        told = json.loads(shown.stdout)
        assert (told["kind"], told["tenant"], told["role"], told["key_id"]) == ("operator", "*", "admin", admin["id"])
        people = await lingua("whoami", "--url", url, **home(tmp_path))
        assert f"{admin['id']}, from {file}" in people.stdout
        assert "keys:write" in people.stdout
        forgot = await lingua("logout", "--url", url, **home(tmp_path))
        assert (forgot.exit_code, "forgot the key for http://127.0.0.1" in forgot.stdout) == (0, True)
        assert (await lingua("whoami", "--url", url, **home(tmp_path))).exit_code == NOT_ALLOWED
        assert "there is no key for" in (await lingua("logout", "--url", url, **home(tmp_path))).stdout
        assert admin["key"] not in file.read_text()


async def test_a_key_that_is_refused_is_not_stored(server: RedisProcess, tmp_path: Path) -> None:
    wrong = await created(server, "--admin")
    assert (await lingua("keys", "revoke", wrong["id"], "--redis-url", server.url)).exit_code == 0
    await created(server, "--admin")
    async with guarded(server) as url:
        refused = await lingua("login", "--url", url, stdin=wrong["key"], **home(tmp_path))
        assert (refused.exit_code, "the key was not stored" in refused.stderr) == (NOT_ALLOWED, True)
        assert not (tmp_path / "lingua").exists()
        typo = await lingua("login", "--url", url, stdin=wrong["key"][:-1] + "?", **home(tmp_path))
        assert typo.exit_code == SETTINGS
        assert wrong["key"][:-1] not in refused.output + typo.output


@pytest.mark.parametrize(
    ("stdin", "words"), [("", "no key was given"), ("lk_op_abc", "not a key of this scheduler; a key looks like")]
)
async def test_what_is_no_key_is_not_sent(tmp_path: Path, stdin: str, words: str) -> None:
    refused = await lingua("login", "--url", "127.0.0.1:1", stdin=stdin, **home(tmp_path))
    assert (refused.exit_code, words in refused.stderr) == (SETTINGS, True)


async def test_rights_that_are_missing_are_said_with_the_next_step(server: RedisProcess, tmp_path: Path) -> None:
    viewer = await created(server, "--kind", "operator", "--role", "viewer")
    node = await created(server, "--kind", "node")
    async with guarded(server) as url:
        for arguments, key in (
            (("alarms", "forget", "pair.lost/en:ko"), viewer["key"]),
            (("status",), node["key"]),
            (("pools",), node["key"]),
            (("events", "--once"), node["key"]),
        ):
            refused = await lingua(*arguments, "--url", url, LINGUA_KEY=key, **home(tmp_path))
            must_be_refused(refused.exit_code, refused.stderr, key)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("node", ("top", "--once")),
        ("node", ("events",)),
        ("node", ("load", "--seconds", "1", "--to", "zh")),
        ("metrics", ("node", "--engine", "sim")),
        ("metrics", ("translate", SOUND, "--from", "en", "--to", "zh")),
    ],
)
async def test_commands_that_stay_end_when_they_are_refused(
    server: RedisProcess, tmp_path: Path, kind: str, arguments: tuple[str, ...]
) -> None:
    made = await created(server, "--kind", kind)
    async with guarded(server) as url:
        code, output = await ended(*arguments, "--url", url, LINGUA_KEY=made["key"], **home(tmp_path))
    must_be_refused(code, output, made["key"])


def must_be_refused(code: int | None, output: str, key: str) -> None:
    assert code == NOT_ALLOWED, output
    assert "lingua whoami shows what your key may do" in output
    assert key not in output


async def test_unencrypted_addresses_get_a_warning(tmp_path: Path) -> None:
    warned = await lingua("login", "--url", "http://scheduler.invalid", stdin="x", **home(tmp_path))
    assert "crosses the network unencrypted" in warned.stderr
    here = await lingua("login", "--url", "http://127.0.0.1:1", stdin="x", **home(tmp_path))
    assert (here.exit_code, "unencrypted" in here.stderr) == (SCHEDULER, False)


async def test_a_variable_comes_before_the_stored_key_and_that_is_said(server: RedisProcess, tmp_path: Path) -> None:
    admin = await created(server, "--admin")
    async with guarded(server) as url:
        said = await lingua("login", "--url", url, stdin=admin["key"], LINGUA_KEY="other", **home(tmp_path))
        assert (said.exit_code, "LINGUA_KEY comes first" in said.stderr) == (0, True)
        refused = await lingua("whoami", "--url", url, LINGUA_KEY="other", **home(tmp_path))
        assert "the key of the variable LINGUA_KEY was not accepted" in refused.stderr
