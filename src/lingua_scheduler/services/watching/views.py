"""The pictures of single tenants, each made once of the one picture of all."""

from collections import OrderedDict

from lingua_scheduler.domain.watching.narrowing import events_of, narrowed, nodes_of
from lingua_scheduler.domain.watching.picture import Event, Picture
from lingua_scheduler.services.watching.snapshot import Snapshots

# Narrowed pictures that are remembered: two for each tenant that is watched, the one before and the one after.
REMEMBERED = 256


class Views:
    """A tenant that is None stands for all."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._narrowed: OrderedDict[tuple[str, int], Picture] = OrderedDict()

    async def read(self, tenant: str | None) -> Picture:
        """The latest. Raises RedisAway, as the whole picture."""
        return self.of(await self._snapshots.read(), tenant)

    def of(self, picture: Picture, tenant: str | None) -> Picture:
        if tenant is None:
            return picture
        known = self._narrowed.get((tenant, picture.serial))
        if known is None:
            known = self._narrowed[tenant, picture.serial] = narrowed(picture, tenant)
            if len(self._narrowed) > REMEMBERED:
                self._narrowed.popitem(last=False)
        return known

    def events(self, tenant: str | None) -> list[Event]:
        """The latest, oldest first."""
        return self.events_of(list(self._snapshots.events), tenant)

    def events_of(self, events: list[Event], tenant: str | None) -> list[Event]:
        return events if tenant is None else events_of(events, tenant, self.nodes_of(tenant) or ())

    def nodes_of(self, tenant: str | None) -> set[str] | None:
        """The nodes whose names an operator of the tenant may know; None: all."""
        return None if tenant is None else nodes_of(self._snapshots.latest, tenant)
