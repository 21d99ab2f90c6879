"""A simulated node that knows all addresses, of whichever release runs it: python node.py NODE_ID ADDRESS…"""

import asyncio
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lingua_scheduler.engines.sim import SimEngine

# Releases before 0.2 have no package of that name.
SDK = "lingua_sdk" if find_spec("lingua_sdk") else "lingua_scheduler.sdk"
Abilities: Any = import_module(f"{SDK}.engines").Abilities
Node: Any = import_module(f"{SDK}.node").Node

LANGUAGES = ["en", "zh"]


def tell(event: str, detail: str) -> None:
    print(f"{time.monotonic():.3f} {event}: {detail}", flush=True)


async def main(node_id: str, *addresses: str) -> None:
    abilities = Abilities(LANGUAGES, LANGUAGES, LANGUAGES, slots=8)
    await Node(addresses, SimEngine(base_ms=300), abilities, node_id=node_id, on_event=tell).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
