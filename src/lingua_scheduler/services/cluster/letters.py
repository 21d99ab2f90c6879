"""The envelope of a letter, as handlers get it."""

from typing import NamedTuple


class Letter(NamedTuple):
    """A letter may be delivered again: `uid` stays the same, `deliveries` counts."""

    uid: str
    sender: str
    kind: str
    deliveries: int = 1
    # The dead instance to which it was addressed.
    adopted_from: str = ""
    # It may have waited in this process while that stood still, and others have gone on without it.
    is_late: bool = False
    # This process has had it before, in another entry of the inbox or in the same.
    is_repeat: bool = False
