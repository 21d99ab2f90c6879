"""Server-sent events are read however they arrive. Following a scheduler: tests/cli/watching/test_pictures.py."""

import pytest

from lingua_sdk import watching
from lingua_sdk.http import Unreadable
from lingua_sdk.watching import Reader, StreamMessage

STREAM = b"retry: 2000\n\n: beat\n\nevent: change\r\ndata: {\ndata: }\n\ndata: x\n\nevent: empty\n\nid: 7\n"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_messages_are_read_however_they_are_cut(size: int) -> None:
    reader = Reader()
    found = [message for i in range(0, len(STREAM), size) for message in reader.feed(STREAM[i : i + size])]
    assert found == [StreamMessage("change", b"{\n}"), StreamMessage("message", b"x")]
    assert reader.retry_s == 2.0


def test_a_message_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MAX_MESSAGE_BYTES", 1_000)
    reader = Reader()
    for _ in range(100):
        assert reader.feed(b"data: " + b"x" * 900 + b"\n\n")
    reader.feed(b"x" * 900)
    with pytest.raises(Unreadable):
        reader.feed(b"x" * 400)
