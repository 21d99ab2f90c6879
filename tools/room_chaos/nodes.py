"""A node that recognises made-up sound and translates it into any language.

python -m tools.room_chaos.nodes NAME ADDRESS,ADDRESS… LANGUAGE,LANGUAGE… SEED
"""

import asyncio
import random
import sys
from collections.abc import Callable

from lingua_sdk.node import Abilities, JobOutput, Node, run_node
from lingua_sdk.protocol.node import JobAssign
from tests.support.worded_sound import recognised

SLOTS = 16
TAKES_S = (0.05, 0.4)


class Engine:
    name = "room-chaos"

    def __init__(self, seed: str) -> None:
        self._dice = random.Random(seed)

    async def translate(self, job: JobAssign, _: Callable[[str], None]) -> JobOutput:
        await asyncio.sleep(self._dice.uniform(*TAKES_S))
        words = recognised(job.audio)
        return JobOutput(words, f"{job.tgt_lang}:{words}")


def main(name: str, addresses: str, languages: str, seed: str) -> None:
    codes = tuple(languages.split(","))
    abilities = Abilities(codes, codes, codes, slots=SLOTS)
    run_node(Node(addresses.split(","), Engine(seed), abilities, node_id=name))


if __name__ == "__main__":
    main(*sys.argv[1:])
