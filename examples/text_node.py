"""A node that only translates text: python text_node.py [address]. Put your model in the place of the phrases.

Other nodes recognise and speak. This one gets the text of what is said in rooms of several languages, and of pairs
that no node serves alone (docs/languages.md). A pipeline without a recogniser announces `text_input` by itself."""

import sys

from lingua_sdk.node import BadAddress, Node, Pipeline, run_node

PHRASES = {"good morning": {"pt": "bom dia", "es": "buenos días"}, "thank you": {"pt": "obrigado", "es": "gracias"}}


class Mind:
    pairs = (("en", "pt"), ("en", "es"))

    def translate(self, text: str, source: str, target: str) -> str:
        known = PHRASES.get(text.strip(" .!?").lower(), {})
        return known.get(target, f"[{target}] {text}")


address = sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:5010"
try:
    run_node(Node(address, Pipeline(translator=Mind(), slots=8), on_event=print))
except BadAddress as error:
    sys.exit(f"{error}\nusage: python text_node.py [ws://127.0.0.1:5010]")
