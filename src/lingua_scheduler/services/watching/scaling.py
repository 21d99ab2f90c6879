"""How many slots are wanted, of the latest picture; each question is answered once for each picture."""

from collections import OrderedDict

from lingua_scheduler.domain.watching.picture import Picture
from lingua_scheduler.domain.watching.scaling import Scaling, scaling_of
from lingua_scheduler.services.watching.snapshot import Snapshots

# Answers that are remembered: one for each deployment that is scaled by pairs of its own.
REMEMBERED = 128


class ScalingDesk:
    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._answers: OrderedDict[tuple[int, tuple[str, ...] | None, bool], Scaling] = OrderedDict()

    async def read(self, pairs: tuple[str, ...] | None = None, tenant: str | None = None) -> Scaling:
        """Of these pairs, src:tgt; None: of the whole fleet. Raises RedisAway while no picture is known.

        A caller of one tenant is not told of pairs that no node serves: that they are asked for is not its business.
        """
        return self.of(await self._snapshots.read(), pairs, tenant)

    def of(self, picture: Picture, pairs: tuple[str, ...] | None = None, tenant: str | None = None) -> Scaling:
        asked = None if pairs is None else tuple(sorted(set(pairs)))
        key = (picture.serial, asked, tenant is not None)
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = scaling_of(picture, asked, only_served=tenant is not None)
            if len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        return found
