"""Join strings, and joining over HTTP at a real scheduler."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lingua_sdk.access import AccessDenied
from lingua_sdk.address import BadAddress
from lingua_sdk.domain.key_texts import KeyKind, fresh_key
from lingua_sdk.http import Refused, Unreadable
from lingua_sdk.identity import read_identity
from lingua_sdk.joining import PREFIX, BadJoinString, JoinString, join
from tests.support.access import MadeKey, guarded_scheduler, made_key
from tests.support.fake_scheduler import fake_scheduler
from tests.support.servers import RedisProcess

KEY = fresh_key(KeyKind.ENROLMENT)
ADDRESS = "wss://translate.example.com:8443/lingua"


def test_one_string_has_the_address_and_the_key() -> None:
    text = str(JoinString(ADDRESS, KEY))
    assert JoinString.parse(f" {text}\n") == (ADDRESS, KEY)
    # Nothing in it means anything to a shell, a URL, a file of settings or a Makefile.
    assert text.startswith(PREFIX)
    assert text.replace("-", "").replace("_", "").isalnum()


def test_a_bare_key_goes_with_an_address() -> None:
    assert JoinString.parse(str(KEY), ADDRESS) == (ADDRESS, KEY)
    with pytest.raises(BadJoinString, match="address"):
        JoinString.parse(str(KEY))


def test_the_address_in_the_string_counts() -> None:
    assert JoinString.parse(str(JoinString(ADDRESS, KEY)), "ws://other").address == ADDRESS


@pytest.mark.parametrize("cut", [1, 5, 60, 100])
def test_a_string_that_was_cut_off_is_found_out(cut: int) -> None:
    with pytest.raises(BadJoinString) as told:
        JoinString.parse(str(JoinString(ADDRESS, KEY))[:-cut])
    assert KEY.secret[:20] not in str(told.value)


@pytest.mark.parametrize("text", ["", "x", PREFIX, PREFIX + "%%%", PREFIX + "_w", PREFIX + "YQ", PREFIX + "a" * 5000])
def test_rubbish_is_no_join_string(text: str) -> None:
    with pytest.raises(BadJoinString):
        JoinString.parse(text)


def test_other_keys_let_no_node_join() -> None:
    with pytest.raises(BadJoinString, match="not an enrolment key"):
        JoinString.parse(str(JoinString(ADDRESS, fresh_key(KeyKind.OPERATOR))))
    with pytest.raises(BadAddress):
        JoinString.parse(str(JoinString("redis://host", KEY)))


def test_no_text_about_it_has_the_secret() -> None:
    assert KEY.secret not in repr(JoinString(ADDRESS, KEY))


class At:
    """A scheduler, and the ways to join it."""

    def __init__(self, port: int, key: MadeKey, folder: Path) -> None:
        self.joining = JoinString.parse(key.text, f"ws://127.0.0.1:{port}")
        self.path = folder / "node.json"


@pytest.fixture
async def at(server: RedisProcess, tmp_path: Path) -> AsyncIterator[At]:
    key = made_key(KeyKind.ENROLMENT)
    async with guarded_scheduler(server.url, tmp_path, key) as (scheduler, _):
        yield At(scheduler.port, key, tmp_path)


async def test_a_node_joins_and_is_the_same_when_it_joins_again(at: At) -> None:
    identity, answer = await join(at.joining, at.path, "gpu-7")
    assert (identity.node_id, answer.node_id, answer.is_approved) == ("gpu-7", "gpu-7", True)
    assert read_identity(at.path, at.joining.address) == identity
    again, _ = await join(at.joining, at.path, "gpu-7")
    assert again == identity


async def test_an_id_that_another_node_has_is_refused(at: At, tmp_path: Path) -> None:
    await join(at.joining, at.path, "gpu-7")
    with pytest.raises(Refused, match="NODE_ID_CONFLICT"):
        await join(at.joining, tmp_path / "other.json", "gpu-7")
    assert not (tmp_path / "other.json").exists()


async def test_a_wrong_key_leaves_no_file(at: At) -> None:
    with pytest.raises(AccessDenied):
        await join(at.joining._replace(key=KEY), at.path)
    assert not at.path.exists()


async def test_what_is_no_scheduler_is_told(tmp_path: Path) -> None:
    async with fake_scheduler() as other:
        with pytest.raises((Refused, Unreadable)):
            await join(JoinString(f"ws://127.0.0.1:{other.port}", KEY), tmp_path / "x.json")
