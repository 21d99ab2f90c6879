"""Where a command belongs in a Redis Cluster: its key, the key's slot, and who serves the slot."""

from functools import lru_cache
from typing import NamedTuple

from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS
from redis.crc import key_slot

from lingua_scheduler.store.connection import Argument, Command, Reply
from lingua_scheduler.store.servers.addresses import Address

__all__ = ["SLOTS", "Layout", "key_of", "read_layout", "slot_of"]

# Where the key of a command is, when it is not the first argument.
KEY_AT: dict[Argument, int] = {"EVALSHA": 3, "EVAL": 3, "XGROUP": 2, "XINFO": 2}
KEY_AFTER_STREAMS: frozenset[Argument] = frozenset({"XREAD", "XREADGROUP"})


@lru_cache(maxsize=8192)
def slot_of(key: Argument) -> int:
    return key_slot(key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogateescape"))


def key_of(command: Command) -> Argument:
    """What decides where a command goes; nothing in particular for one without a key, which any master can answer."""
    name = command[0]
    at = command.index("STREAMS") + 1 if name in KEY_AFTER_STREAMS else KEY_AT.get(name, 1)
    return command[at] if at < len(command) else ""


class Layout(NamedTuple):
    """Who serves what, as one node sees it."""

    ranges: tuple[tuple[int, int, Address], ...]
    nodes: frozenset[Address]

    @property
    def masters(self) -> frozenset[Address]:
        return frozenset(master for _, _, master in self.ranges)

    @property
    def covered(self) -> int:
        return sum(last - first + 1 for first, last, _ in self.ranges)


def read_layout(asked: Address, reply: Reply) -> Layout:
    """Read CLUSTER SLOTS; a node that does not know its own name is where we asked it."""
    ranges, nodes = [], set()
    for first, last, *servers in reply:
        addresses = [
            Address(asked.host if server[0] in (None, "", "?") else server[0], server[1]) for server in servers
        ]
        ranges.append((first, last, addresses[0]))
        nodes.update(addresses)
    return Layout(tuple(ranges), frozenset(nodes))
