"""The operations as an OpenAPI document, read from the structs that also read the bodies and write the answers."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import msgspec

from lingua_scheduler.console.operations import KnownProblem, Operation, parameter
from lingua_scheduler.domain.access.scopes import OPEN
from lingua_scheduler.protocol.uploads import FORM

Document = dict[str, Any]

_BEARER = "bearer"
_SECURITY_SCHEMES = {
    _BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "A key (`lk_...`) or a token. Callers on the same computer may need none (`auth.mode`)",
    }
}
_REF = "#/components/schemas/{name}"
_ERROR = "ErrorResponse"
_ERROR_SCHEMA = {
    "title": _ERROR,
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "The code of the error"},
        "detail": {"type": "string", "description": "One sentence that explains the error"},
    },
    "required": ["error", "detail"],
}
_DESCRIPTION = """\
The HTTP API: monitor and control the scheduler, dispatch jobs, and run nodes over HTTP. Clients and most nodes use \
WebSocket; those messages are in `/asyncapi.json`.

Request bodies are JSON, sent as `application/json`. Unknown fields are ignored, and an optional field may be absent \
or null; an unknown query parameter is an error. Every error has the same form, a code for programs and a sentence for \
people: `{"error": "CODE", "detail": "..."}`. The description of a status lists its codes, and `x-error-codes` too. \
An unexpected failure is 500 `INTERNAL_ERROR`.

Send an `X-Request-Id` header (up to 128 printable ASCII characters) to find a request in the log. Every response \
carries it, or a generated one."""


def openapi(operations: Iterable[Operation], version: str) -> bytes:
    """The whole document as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(document(operations, version)), indent=2) + b"\n"


def document(operations: Iterable[Operation], version: str) -> Document:
    known = list(operations)
    spoken = (s for o in known for s in (o.answer, None if o.media else o.body, o.query))
    structs = list(dict.fromkeys(s for s in spoken if s is not None))
    refs, components = msgspec.json.schema_components(structs, ref_template=_REF)
    schemas = dict(zip(structs, refs, strict=True))
    paths: Document = {}
    for operation in known:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas, components)
    for struct in {o.query for o in known if o.query is not None}:
        components.pop(_name(schemas[struct]), None)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lingua Scheduler", "version": version, "description": _DESCRIPTION},
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in known)],
        "paths": paths,
        "components": {
            "schemas": dict(sorted((components | {_ERROR: _ERROR_SCHEMA}).items())),
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def _operation(operation: Operation, schemas: dict[type, Document], components: Document) -> Document:
    told: Document = {
        "operationId": _operation_id(operation),
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if operation.description:
        told["description"] = operation.description
    if operation.needs != OPEN:
        # Of OpenAPI 3.1, roles of a scheme that has no scopes of its own: any one of them is enough.
        told["security"] = [{_BEARER: [scope.value]} for scope in operation.needs]
    parameters = [_path_parameter(name) for name in operation.names]
    if operation.query is not None:
        parameters += _query_parameters(components[_name(schemas[operation.query])])
    if parameters:
        told["parameters"] = parameters
    if operation.body is not None:
        content = (
            _binary(name for name in operation.media if name != FORM)
            if operation.media
            else _json(schemas[operation.body])
        )
        told["requestBody"] = {"required": True, "content": content}
    answers = _json(schemas[operation.answer]) | _binary(operation.answer_media)
    told["responses"] = {"200": {"description": "OK", "content": answers}}
    if operation.answer_media:
        told["responses"]["204"] = {"description": "There is nothing to send in the requested format"}
    for status, problems in groupby(operation.all_problems, key=lambda problem: problem.status):
        told["responses"][str(status)] = _problems(list(problems))
    return told


def _operation_id(operation: Operation) -> str:
    words = operation.path.replace("{", "").replace("}", "").strip("/").replace("/", "_")
    return f"{operation.method.lower()}_{words}"


def _path_parameter(name: str) -> Document:
    allowed = parameter(name)
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": allowed.meaning,
        "schema": {"type": "string", "pattern": allowed.pattern, "maxLength": allowed.max_length},
        "example": allowed.example,
    }


def _query_parameters(schema: Document) -> list[Document]:
    found = []
    for name, about in schema["properties"].items():
        rest = {key: value for key, value in about.items() if key != "description"}
        required = name in schema.get("required", ())
        found.append(
            {
                "name": name,
                "in": "query",
                "required": required,
                "description": about.get("description", ""),
                "schema": rest,
            }
        )
    return found


def _problems(problems: list[KnownProblem]) -> Document:
    """One schema for all errors: generators make a class of each schema, and would make one of each status."""
    told = "\n".join(f"- `{problem.code}`: {problem.when}" for problem in problems)
    return {
        "description": told,
        "content": _json({"$ref": _REF.format(name=_ERROR)}),
        "x-error-codes": [problem.code for problem in problems],
    }


def _json(schema: Document) -> Document:
    return {"application/json": {"schema": schema}}


def _binary(media: Iterable[str]) -> Document:
    return {name: {"schema": {"type": "string", "format": "binary"}} for name in media}


def _name(ref: Document) -> str:
    return str(ref["$ref"]).rpartition("/")[2]
