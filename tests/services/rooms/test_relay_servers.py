from pathlib import Path

import pytest

from lingua_scheduler.services.rooms.relay_servers import RelaySecretError, RelayServers
from lingua_scheduler.setting_sections.rooms import RoomsSettings

URLS = ("stun:stun.example", "turn:turn.example:3478", "turns:turn.example")


def servers(**settings: object) -> RelayServers:
    return RelayServers(RoomsSettings(**settings), lambda: 1_000_000.0)  # type: ignore[arg-type]


def test_a_member_gets_a_credential_for_turn_alone(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("secret\n")
    told = servers(turn_urls=URLS, turn_secret_file=str(file), turn_credential_ms=300_000).told_to("s-1")
    assert told is not None
    stun, turn = told
    assert (stun.urls, stun.username, stun.credential) == (["stun:stun.example"], None, None)
    assert (turn.urls, turn.username, turn.credential) == (
        ["turn:turn.example:3478", "turns:turn.example"],
        "1000300:s-1",
        "cwKP7JHQ/SWGAWR7qMvX40sSGGg=",
    )


def test_without_a_secret_there_is_no_credential_and_without_servers_nothing() -> None:
    told = servers(turn_urls=("turn:turn.example",)).told_to("s-1")
    assert told is not None
    assert told[0].credential is None
    assert servers().told_to("s-1") is None


def test_a_file_without_a_secret_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RelaySecretError, match="correct the path"):
        servers(turn_secret_file=str(tmp_path / "none"))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(RelaySecretError, match="is empty"):
        servers(turn_secret_file=str(tmp_path / "empty"))
