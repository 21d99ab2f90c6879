"""A node in twenty lines: python node.py [address]. Replace these dummy engines with your models."""

import sys

from lingua_sdk import Audio, BadAddress, Node, Pipeline, ShowPartial, run_node


class Ears:
    languages = ("en",)

    def recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str:
        return f"{audio.seconds:.1f} seconds of speech"


class Mind:
    pairs = (("en", "pt"),)

    def translate(self, text: str, source: str, target: str) -> str:
        return text.replace("seconds of speech", "segundos de fala")


class Voice:
    languages = ("pt",)

    def speak(self, text: str, language: str) -> Audio:
        return Audio(bytes(2 * 22_050), sample_rate=22_050)  # a second of silence


address = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:5010"
try:
    run_node(Node(address, Pipeline(Ears(), translator=Mind(), speaker=Voice()), on_event=print))
except BadAddress as error:
    sys.exit(f"{error}\nusage: python node.py [ws://127.0.0.1:5010]")
