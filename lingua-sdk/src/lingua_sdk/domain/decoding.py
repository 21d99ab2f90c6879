"""What decoders raise for input that is not what it should be: one list, so that no reader forgets one of them."""

# UnicodeError and msgspec's own errors are ValueErrors; what is nested too deeply ends in a RecursionError.
DECODE_ERRORS = (ValueError, RecursionError)
