"""Clients that take no for an answer, and say what they were told."""

from typing import Protocol

from bench.peers import Client, Judge, Talker
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import MissingResult, UiEvent
from lingua_sdk.protocol.shapes import ErrorMessage


class Listener(Judge, Protocol):
    def refused(self, asker: Talker, due_ns: int, why: str) -> None: ...

    def told(self, code: str) -> None:
        """An error that does not say which utterance it is about; that one will have no answer."""


class Asker(Client):
    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self._listener = listener
        self._codes: dict[int, str] = {}

    def on_complaint(self, payload: bytes) -> None:
        event = codec.decode_for_client(payload)
        assert isinstance(event, UiEvent)
        self._codes[event.utterance_index] = event.error_code or ""

    def on_refused(self, payload: bytes) -> None:
        message = codec.decode_for_client(payload)
        if isinstance(message, MissingResult):
            code = self._codes.pop(message.utterance_index, "")
            self._answered = message.utterance_index + 1
            self._listener.refused(self, self._began_ns.popleft(), f"{message.reason} {code}".rstrip())
        elif isinstance(message, ErrorMessage):
            self._listener.told(message.code)
