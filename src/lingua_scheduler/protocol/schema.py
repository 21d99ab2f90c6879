"""The AsyncAPI document with JSON Schemas, generated from the structs of the codec."""

from functools import cache
from typing import Any, NamedTuple, get_args

import msgspec

from lingua_sdk.protocol.node import NodeIncoming, NodeOutgoing
from lingua_sdk.protocol.session import SessionIncoming, SessionOutgoing
from lingua_sdk.protocol.shapes import Message

Document = dict[str, Any]


class _Channel(NamedTuple):
    name: str
    peer: str
    description: str
    incoming: Any
    outgoing: Any

    @property
    def structs(self) -> tuple[type[Message], ...]:
        return get_args(self.incoming | self.outgoing)


_CHANNELS = (
    _Channel(
        "session",
        "a client",
        "Endpoint for clients. The first message is `session_init`; later messages name the session from its "
        "acknowledgement.",
        SessionIncoming,
        SessionOutgoing,
    ),
    _Channel(
        "node",
        "a node",
        "Endpoint for nodes. The first message is `node_register`; before it only heartbeats are accepted.",
        NodeIncoming,
        NodeOutgoing,
    ),
)

_DESCRIPTION = """\
The messages that clients and nodes send to the scheduler (`receive`) and get from it (`send`).

A text frame is one JSON object; its `type` names the message. Reading is tolerant: unknown fields are ignored, and an \
optional field may be absent or null. Writing is sparse: optional fields without a value are left out. Integers are \
written without a fraction, bytes as base64. Peers pass over a `type` they do not know, because more may be added.

Clients may send audio in binary frames (0x01 a chunk, 0x02 a final) once `session_init_ack` says `use_binary_frame`."""

_ID_LENGTH_SEQ_TIME = (("session_id_length", "u8"), ("seq", "u32"), ("timestamp", "u32"))

# By name: the first byte, what it is, and the fields after it.
_BINARY_FRAMES = {
    "binary_audio_chunk": (
        0x01,
        "Instead of the JSON message `audio_chunk`",
        (*_ID_LENGTH_SEQ_TIME, ("is_final", "u8"), ("reserved", "u8"), ("session_id", "utf-8"), ("audio", "rest")),
    ),
    "binary_final": (
        0x02,
        "Instead of an `audio_chunk` that is final and has no payload",
        (*_ID_LENGTH_SEQ_TIME, ("session_id", "utf-8")),
    ),
}


@cache
def asyncapi(version: str) -> bytes:
    """The whole document as indented JSON."""
    return _indented(document(version))


@cache
def json_schema(version: str) -> bytes:
    """The text frames alone, for validators: a definition for each message, and one for each direction."""
    return _indented(_json_schema(document(version)))


def _indented(written: Document) -> bytes:
    return msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n"


def document(version: str) -> Document:
    """The AsyncAPI document."""
    messages: Document = {}
    payloads, shapes = _schemas()
    for channel in _CHANNELS:
        for struct in channel.structs:
            messages[f"{channel.name}.{_tag(struct)}"] = {"name": _tag(struct), "payload": payloads[struct]}
    for name in _BINARY_FRAMES:
        messages[f"session.{name}"] = _binary_message(name)
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Lingua Scheduler", "version": version, "description": _DESCRIPTION},
        "defaultContentType": "application/json",
        "channels": {channel.name: _channel(channel, messages) for channel in _CHANNELS},
        "operations": {
            f"{channel.name}.{action}": _operation(channel, action)
            for channel in _CHANNELS
            for action in ("receive", "send")
        },
        "components": {"messages": messages, "schemas": shapes},
    }


def _json_schema(described: Document) -> Document:
    messages = described["components"]["messages"]
    definitions = described["components"]["schemas"] | {
        name: message["payload"] for name, message in messages.items() if not _is_binary(message)
    }
    for name, operation in described["operations"].items():
        named = [ref["$ref"].removeprefix("#/channels/").replace("/messages/", ".") for ref in operation["messages"]]
        definitions[name] = {
            "title": operation["summary"],
            "anyOf": [{"$ref": f"#/components/schemas/{one}"} for one in named if not _is_binary(messages[one])],
        }
    info = described["info"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:lingua-scheduler:messages:{info['version']}",
        "title": f"WebSocket messages of {info['title']} {info['version']}",
        "$defs": _moved(definitions),
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in described["operations"]],
    }


def _moved(schema: Any) -> Any:
    """The same with references into `$defs`."""
    match schema:
        case {"$ref": str(ref), **rest}:
            return {"$ref": ref.replace("#/components/schemas/", "#/$defs/")} | _moved(rest)
        case dict():
            return {name: _moved(part) for name, part in schema.items()}
        case list():
            return [_moved(part) for part in schema]
        case _:
            return schema


def _is_binary(message: Document) -> bool:
    return "x-layout" in message


def _schemas() -> tuple[dict[type[Message], Document], Document]:
    """The schema of every message, and by name those of the objects inside them."""
    structs = list(dict.fromkeys(struct for channel in _CHANNELS for struct in channel.structs))
    refs, components = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    components = _sharpened(components)
    payloads = {
        struct: components.pop(ref["$ref"].rpartition("/")[2]) for struct, ref in zip(structs, refs, strict=True)
    }
    return payloads, components


def _sharpened(schema: Any) -> Any:
    """A tag as the constant it is; and the limit of an integer for all numbers, or it would not bind integers."""
    match schema:
        case {"enum": [only]}:
            return {"const": only}
        case {"anyOf": [{"type": "integer"} as integer, {"type": "number"}, *others], **rest}:
            number = integer | {"type": "number"}
            return ({"anyOf": [number, *others]} if others else number) | rest
        case dict():
            return {name: _sharpened(part) for name, part in schema.items()}
        case list():
            return [_sharpened(part) for part in schema]
        case _:
            return schema


def _binary_message(name: str) -> Document:
    kind, summary, fields = _BINARY_FRAMES[name]
    layout = [{"name": "kind", "encoding": "u8", "const": kind}]
    layout += [{"name": field, "encoding": encoding} for field, encoding in fields]
    description = (
        f"A binary frame that begins with 0x{kind:02x}. `x-layout` lists its fields in order, without padding; numbers "
        "are unsigned and little-endian, and the timestamp is the low 32 bits of epoch milliseconds."
    )
    return {
        "name": name,
        "summary": summary,
        "description": description,
        "contentType": "application/octet-stream",
        "payload": {"type": "string", "format": "binary"},
        "x-layout": layout,
    }


def _channel(channel: _Channel, messages: Document) -> Document:
    names = [name for name in messages if name.startswith(f"{channel.name}.")]
    return {
        "address": f"/ws/{channel.name}",
        "description": channel.description,
        "messages": {name.partition(".")[2]: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {"ws": {"method": "GET", "bindingVersion": "0.1.0"}},
    }


def _operation(channel: _Channel, action: str) -> Document:
    is_incoming = action == "receive"
    names = [_tag(struct) for struct in get_args(channel.incoming if is_incoming else channel.outgoing)]
    if is_incoming and channel.name == "session":
        names += _BINARY_FRAMES
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel.name}"},
        "summary": f"Messages {'from' if is_incoming else 'to'} {channel.peer}",
        "messages": [{"$ref": f"#/channels/{channel.name}/messages/{name}"} for name in names],
    }


def _tag(struct: type[Message]) -> str:
    return str(struct.__struct_config__.tag)
