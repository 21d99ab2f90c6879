"""A node with models of your own on a GPU: faster-whisper recognises, NLLB translates, Piper speaks.

    pip install 'lingua-scheduler[gpu]'
    python gpu_node.py --whisper DIR --nllb DIR --voice en_US-lessac-medium.onnx --voice pt_BR-faber-medium.onnx

docs/engines.md says how to get the models in the format of CTranslate2; a Piper voice has its .onnx.json beside it.
Nothing is downloaded. `lingua node --whisper-model DIR …` does the same without a program: this file is the place for
engines of your own. Tested on a CPU with small models. Not tested: on a GPU, and with NLLB and voices of real size."""

import argparse
import sys
from pathlib import Path

from lingua_scheduler.engines.nllb import Nllb
from lingua_scheduler.engines.piper import Piper
from lingua_scheduler.engines.whisper import Whisper
from lingua_sdk.node import BadAddress, Node, Pipeline, run_node


def main() -> None:
    options = argparse.ArgumentParser(description="A node with faster-whisper, NLLB and Piper")
    options.add_argument("address", nargs="?", default="ws://127.0.0.1:5010")
    options.add_argument("--whisper", type=Path, required=True, help="a folder with a Whisper model for CTranslate2")
    options.add_argument("--nllb", type=Path, required=True, help="a folder with NLLB-200 or M2M100 for CTranslate2")
    options.add_argument("--voice", type=Path, action="append", default=[], help="a voice of Piper; may be repeated")
    options.add_argument("--languages", default="en,pt", help="fewer languages, fewer pairs to declare")
    options.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    options.add_argument("--slots", type=int, default=4, help="how many sentences at once; more need more memory")
    given = options.parse_args()
    languages = given.languages.split(",")

    whisper = Whisper(given.whisper, given.device, languages)
    # The first sentence on a GPU takes seconds; it should not be that of a person.
    whisper.warm_up(given.slots)
    nllb = Nllb(given.nllb, given.device, languages)
    # A pair whose target has no voice is served as text.
    voices = Piper(given.voice, given.device) if given.voice else None
    run_node(Node(given.address, Pipeline(whisper, translator=nllb, speaker=voices, slots=given.slots), on_event=print))


try:
    main()
except ImportError as error:
    sys.exit(f"{error.name} is not installed; install it with: pip install 'lingua-scheduler[gpu]'")
except (BadAddress, OSError, ValueError) as error:  # the address, or a model
    sys.exit(str(error))
