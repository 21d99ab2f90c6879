"""Who this process is among the instances."""

import os
import secrets
import socket

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.cluster.instances import FORWARDING, MAX_ID_LENGTH, made_up_id
from lingua_scheduler.store.cluster.instances import Me


def this_process(given_id: str, release: str, seals: str, worker: int | None = None) -> Me:
    """This process as an instance; `given_id` is the setting `server.instance_id`, `worker` its number, if it has one.

    A configured id stays the same over restarts; the incarnation never does.
    """
    host, pid = socket.gethostname(), os.getpid()
    if given_id == "auto":
        instance = made_up_id(host, pid, secrets.token_hex(3))
    elif worker is None:
        instance = given_id
    else:
        # Each worker is an instance of its own, and so is the one that replaces it.
        instance = f"{given_id}-{worker}-{pid}"[-MAX_ID_LENGTH:]
    started_ms = int(wall_ms())
    return Me(instance, secrets.token_hex(8), host, pid, release, started_ms, seals=seals, abilities=FORWARDING)
