"""Sound with words in it, for nodes that are tests. Processes that start often import no more than this."""

END = b"|"


def spoken(words: str) -> bytes:
    """Sound in which a node of ours recognises words."""
    sound = words.encode() + END
    return sound + bytes(640 - len(sound))


def recognised(sound: bytes) -> str:
    return sound.partition(END)[0].decode()
