"""How many jobs of a room are under way at an instance, and how many of them one speaker may have."""

from collections import Counter


class RoomJobs:
    """A speaker gets at most half of what the others leave of `most`. So those who flood a room have equal shares of it
    after a while, and one more share is free for the next who speaks."""

    def __init__(self, most: int) -> None:
        self._most = most
        # By room, then by speaker.
        self._rooms: dict[str, Counter[str]] = {}

    def __len__(self) -> int:
        """Rooms with jobs under way."""
        return len(self._rooms)

    def take(self, room_id: str, speaker: str, jobs: int) -> bool:
        """All of an utterance or none. One with nothing under way may have all that is free: it may need many."""
        under_way = self._rooms.get(room_id, Counter())
        own, total = under_way[speaker], under_way.total()
        free = self._most - total
        if jobs > free or (own and own + jobs > (free + own) // 2):
            return False
        self._rooms.setdefault(room_id, Counter())[speaker] += jobs
        return True

    def give_back(self, room_id: str, speaker: str, jobs: int) -> None:
        under_way = self._rooms[room_id]
        under_way[speaker] -= jobs
        if not under_way[speaker]:
            del under_way[speaker]
        if not under_way:
            del self._rooms[room_id]
