"""Words and limits of the wire that the code that decides needs too."""

# Mode of a session: either of two languages may be spoken, and is translated into the other.
TWO_WAY_AUTO = "two_way_auto"
# Feature of a node that takes jobs that bring text.
TEXT_INPUT = "text_input"
MAX_TOKEN_CHARS = 4096
# `typ` in the header of tokens that nodes sign. No other token has it, so neither kind can be taken for the other.
NODE_TOKEN = "lingua-node+jwt"
MAX_NODE_TOKEN_S = 60
