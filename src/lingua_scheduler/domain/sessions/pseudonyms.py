"""The names by which nodes know a session: other ones at each node, so that two nodes cannot tell that they serve the
same conversation."""

from hashlib import blake2b

# At how many nodes the names of one session are remembered; those of others are computed again, and are the same.
MAX_NODES = 16
_NAME_BYTES = 8
_DIGEST_BYTES = 32
MAX_KEY_SIZE = blake2b.MAX_KEY_SIZE


class NodeNames:
    """What one node is given instead of a session's own ids."""

    __slots__ = ("_group", "_group_id", "_key", "session_id", "trace_id", "turn")

    def __init__(self, key: bytes, session_id: str, node_id: str, suffix: str) -> None:
        asked = f"{session_id}\0{node_id}".encode("utf-8", "surrogateescape")
        digest = blake2b(asked, key=key, digest_size=_DIGEST_BYTES).digest()
        name = f"s-{digest[:_NAME_BYTES].hex().upper()}"
        self.session_id = name + suffix
        self.trace_id = digest[_NAME_BYTES : 2 * _NAME_BYTES].hex()
        # What its turn ids begin with.
        self.turn = f"turn-{name}-"
        self._key = digest[2 * _NAME_BYTES :]
        self._group_id = self._group = ""

    def group(self, group_id: str) -> str:
        """Its own id says when the group began, which is the same at every node."""
        if group_id != self._group_id:
            # A job has a group of its own as often as not: a keyed BLAKE2 costs a quarter of an HMAC.
            digest = blake2b(group_id.encode(), key=self._key, digest_size=_NAME_BYTES)
            self._group_id, self._group = group_id, f"group_{digest.hexdigest()}"
        return self._group


class Pseudonyms:
    """The names of one session. Every instance with the same `key` finds the same ones.

    `suffix` follows the session's name at a node when the session was claimed again: nodes take an utterance once.
    """

    __slots__ = ("_key", "_known", "_session_id", "_suffix")

    def __init__(self, key: bytes, session_id: str, suffix: str = "") -> None:
        self._key = key if len(key) <= MAX_KEY_SIZE else blake2b(key, digest_size=_DIGEST_BYTES).digest()
        self._session_id = session_id
        self._suffix = suffix
        self._known: dict[str, NodeNames] = {}

    def at(self, node_id: str) -> NodeNames:
        found = self._known.get(node_id)
        if found is None:
            if len(self._known) >= MAX_NODES:
                del self._known[next(iter(self._known))]
            found = self._known[node_id] = NodeNames(self._key, self._session_id, node_id, self._suffix)
        return found
