"""The identity of a node: kept for its user alone, and never printed."""

import stat
from pathlib import Path

import jwt
import pytest

from lingua_sdk.address import BadAddress
from lingua_sdk.identity import BadIdentity, KeyPair, identity_path, read_identity, state_dir, write_identity
from tests.support.joining import CLUSTER, identity_of

ADDRESS = "ws://127.0.0.1:5010"
PAIR = KeyPair()
ME = identity_of("k3jPq0aZ81Ty", PAIR)
NOW_S = 1_800_000_000.7


def test_a_key_pair_is_random_and_can_be_kept() -> None:
    assert KeyPair().private_text != KeyPair().private_text
    assert KeyPair(PAIR.private_text).public_text == PAIR.public_text


async def test_each_token_is_another_and_says_who_to_whom_and_until_when() -> None:
    text = ME.signed(NOW_S)
    assert jwt.get_unverified_header(text) == {"alg": "EdDSA", "kid": "k3jPq0aZ81Ty", "typ": "lingua-node+jwt"}
    said = jwt.decode(text, PAIR.key.public_key(), ["EdDSA"], audience=CLUSTER, options={"verify_iat": False})
    token_id = said.pop("jti")
    assert said == {"iss": "k3jPq0aZ81Ty", "aud": CLUSTER, "iat": 1_800_000_000, "exp": 1_800_000_060}
    assert len(token_id) == 24
    assert await ME() != await ME()


def test_no_text_about_it_has_its_key() -> None:
    assert PAIR.private_text not in f"{ME!r} {ME}"


def test_it_is_kept_where_only_its_user_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "lingua" / "node" / "x.json"
    assert read_identity(path, ADDRESS) is None
    for _ in range(2):
        write_identity(path, ME)
    assert read_identity(path, ADDRESS) == ME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == ["x.json"]


def test_one_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_identity(path, ME)
    path.chmod(0o640)
    with pytest.raises(BadIdentity, match="chmod 600"):
        read_identity(path, ADDRESS)


@pytest.mark.parametrize("body", ["", "{}", '{"private_key": "0f"}', "\udcff"])
def test_a_damaged_one_is_told_without_its_content(tmp_path: Path, body: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(body.encode(errors="surrogateescape"))
    path.chmod(0o600)
    with pytest.raises(BadIdentity, match="damaged") as told:
        read_identity(path, ADDRESS)
    assert "0f" not in str(told.value)


def test_the_key_for_one_scheduler_is_not_shown_to_another(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_identity(path, ME)
    for other in ("ws://127.0.0.1:5011", "wss://127.0.0.1:5010", "ws://other.example:5010"):
        with pytest.raises(BadIdentity, match="another scheduler"):
            read_identity(path, other)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadIdentity, match="XDG_STATE_HOME"):
        write_identity(tmp_path / "file" / "x.json", ME)


def test_there_is_one_for_each_scheduler_and_each_given_id(tmp_path: Path) -> None:
    same = ["ws://host:5010", "http://host:5010", "ws://host:5010/ws/node", "host:5010"]
    assert len({identity_path(tmp_path, address) for address in same}) == 1
    others = {
        identity_path(tmp_path, address) for address in ("wss://host:5010", "ws://host:5011", "ws://a/b", "ws://a")
    }
    others |= {identity_path(tmp_path, "ws://host:5010", node_id) for node_id in ("a", "b", "")}
    assert len(others) == 7
    for path in (*others, identity_path(tmp_path, "ws://[::1]:1", "../../x")):
        assert path.parent == tmp_path
    with pytest.raises(BadAddress):
        identity_path(tmp_path, "redis://host")


def test_the_state_directory_is_that_of_the_user() -> None:
    assert state_dir({"XDG_STATE_HOME": "/var/state"}) == Path("/var/state/lingua/node")
    for ignored in ({}, {"XDG_STATE_HOME": "relative"}):
        assert state_dir(ignored) == Path.home() / ".local/state/lingua/node"
