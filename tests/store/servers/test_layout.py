"""Where a command belongs in a Cluster: its key, the slot of the key, and the server of the slot."""

import pytest
from redis.crc import key_slot

from lingua_scheduler.store.servers.addresses import Address
from lingua_scheduler.store.servers.layout import key_of, read_layout, slot_of


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("GET", "k"), "k"),
        (("EVALSHA", "sha", 2, "k", "l", "argument"), "k"),
        (("EVAL", "return 1", 0), ""),
        (("XREAD", "COUNT", 1, "STREAMS", "k", "0"), "k"),
        (("XGROUP", "CREATE", "k", "g", "$"), "k"),
        (("PING",), ""),
    ],
)
def test_the_key_of_a_command(command: tuple[str | int, ...], key: str) -> None:
    assert key_of(command) == key


@pytest.mark.parametrize("key", ["a", "{s7}:b", "x{s7}y{z}", "{}a", "{a", "ünïcode", b"bytes", 17])
def test_the_slot_of_a_key(key: str | bytes | int) -> None:
    assert slot_of(key) == key_slot(key if isinstance(key, bytes) else str(key).encode())


def test_a_node_that_does_not_know_its_name_is_where_it_was_asked() -> None:
    layout = read_layout(Address("here", 1), [[0, 16383, ["", 7000, "id"], [None, 7001, "id"], ["there", 7002, "id"]]])
    assert layout.masters == {Address("here", 7000)}
    assert layout.nodes == {Address("here", 7000), Address("here", 7001), Address("there", 7002)}
    assert layout.covered == 16384
