"""What the parts of a scheduler are made with."""

from typing import NamedTuple

from lingua_scheduler.clock import Clock
from lingua_scheduler.services.cluster.mailroom import Mailroom
from lingua_scheduler.services.cluster.presence import Presence
from lingua_scheduler.settings import Settings
from lingua_scheduler.store.store import Store


class Core(NamedTuple):
    settings: Settings
    store: Store
    presence: Presence
    mailroom: Mailroom
    clock: Clock
