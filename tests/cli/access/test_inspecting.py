"""What a token says, and what is said of it; its signature is never shown."""

import base64
import json
import time
from pathlib import Path

import pytest

from tests.support.keyed import created, home, lingua, minting
from tests.support.servers import RedisProcess

SETTINGS, FOUND = 2, 1


def unsigned(**claims: object) -> str:
    """A token by none whom the scheduler knows."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    now = int(time.time())
    whole = {"aud": "lingua", "sub": "u", "iat": now, "exp": now + 900, "lingua": {"tenant": "acme"}} | claims
    return f"{part({'alg': 'HS256', 'kid': 'k'})}.{part(whole)}.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("claims", "word", "reason"),
    [
        ({}, "unchecked", "signature was not checked"),
        ({"exp": int(time.time()) - 60, "iat": int(time.time()) - 120}, "expired", "has expired"),
        ({"aud": "other"}, "refused", "another audience"),
        ({"lingua": {"tenant": "acme", "rooms": 1}}, "refused", "unknown field `rooms`"),
        ({"exp": int(time.time()) + 10**8}, "refused", "lifetime"),
    ],
)
async def test_without_a_scheduler_the_claims_are_judged(
    tmp_path: Path, claims: dict[str, object], word: str, reason: str
) -> None:
    token = unsigned(**claims)
    for more in (("--offline",), ("--url", "ws://127.0.0.1:1")):
        looked = await lingua("token", "inspect", *more, "--json", stdin=token, **home(tmp_path))
        told = json.loads(looked.stdout)
        assert (told["word"], reason in told["reason"]) == (word, True), told
        assert looked.exit_code == (0 if word == "unchecked" else FOUND)
        assert "c2lnbmF0dXJl" not in looked.output
        people = await lingua("token", "inspect", *more, stdin=token, **home(tmp_path))
        assert "c2lnbmF0dXJl" not in people.output


async def test_what_the_scheduler_does_not_say_is_seen_in_the_claims(server: RedisProcess, tmp_path: Path) -> None:
    await created(server, "--admin")
    async with minting(server) as url:
        looked = await lingua("token", "inspect", "--url", url, stdin=unsigned(aud="other"), **home(tmp_path))
        assert looked.exit_code == FOUND
        assert "UNAUTHENTICATED" in looked.stdout
        assert "another audience" in " ".join(looked.stdout.split())


@pytest.mark.parametrize("text", ["", "nonsense", "a.b.c", "lk_sv_abcdefghijkl_" + "S" * 49])
@pytest.mark.parametrize("command", ["inspect", "revoke"])
async def test_what_is_no_token_is_not_repeated(tmp_path: Path, command: str, text: str) -> None:
    refused = await lingua("token", command, stdin=text, **home(tmp_path))
    assert refused.exit_code == SETTINGS
    assert "S" * 49 not in refused.output
