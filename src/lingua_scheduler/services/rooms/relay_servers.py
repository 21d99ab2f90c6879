"""The STUN and TURN servers that clients get, with a credential for each member."""

from collections.abc import Callable
from pathlib import Path

from lingua_scheduler.domain.rooms.relays import relay_credential
from lingua_scheduler.setting_sections.rooms import RoomsSettings
from lingua_sdk.protocol.session import IceServer


class RelaySecretError(Exception):
    """The file with the secret of the TURN servers cannot be used."""


class RelayServers:
    """`wall_s` is the time of day: the servers compare it with their own. Raises RelaySecretError."""

    def __init__(self, settings: RoomsSettings, wall_s: Callable[[], float]) -> None:
        self._urls = settings.turn_urls
        self._lives_s = settings.turn_credential_ms / 1000
        self._wall_s = wall_s
        self._secret = _read_secret(settings.turn_secret_file)

    def told_to(self, session_id: str) -> list[IceServer] | None:
        """STUN servers need no credential. None if there are no servers."""
        stun = [url for url in self._urls if url.startswith("stun")]
        turn = [url for url in self._urls if not url.startswith("stun")]
        told = [IceServer(urls=stun)] if stun else []
        if turn and self._secret:
            name, password = relay_credential(self._secret, session_id, self._wall_s(), self._lives_s)
            told.append(IceServer(urls=turn, username=name, credential=password))
        elif turn:
            told.append(IceServer(urls=turn))
        return told or None


def _read_secret(file: str) -> bytes:
    if not file:
        return b""
    try:
        secret = Path(file).expanduser().read_bytes().strip()
    except OSError as error:
        raise RelaySecretError(f"rooms.turn_secret_file = {file}: {error.strerror}; correct the path") from None
    if not secret:
        raise RelaySecretError(
            f"rooms.turn_secret_file = {file} is empty; write the secret of the TURN servers into it"
        )
    return secret
