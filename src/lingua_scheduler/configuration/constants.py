"""Former settings that are constants now, because no operator changed them; a file that names one is still accepted."""

CONSTANTS = frozenset(
    {
        "nodes.max_message_bytes",
        "sessions.padding_auto_ms",
        "sessions.padding_manual_ms",
        "sessions.max_finished",
        "inbox.max_dead_letters",
        "watch.history",
        "catalogue.timeout_ms",
        "catalogue.max_bytes",
    }
)


def variable_of(name: str) -> str:
    return f"LINGUA_{name.replace('.', '_')}".upper()


def hint_of(name: str, origin: str) -> str:
    return f"{name} ({origin}) is a constant now and not read any more; remove it"
