"""Which engine of a node knows a language, and by what name."""

import functools
from collections.abc import Sequence
from typing import Protocol, TypeVar

from lingua_sdk.domain.languages import tag_of
from lingua_sdk.engines import ModelNotAvailable


class _KnowsLanguages(Protocol):
    @property
    def languages(self) -> Sequence[str]: ...


K = TypeVar("K", bound=_KnowsLanguages)


def knowing(engines: Sequence[K], kind: str, language: str) -> tuple[K, str]:
    """The first engine that knows a language, and its own name for it."""
    for engine in engines:
        if (name := own_name(language, engine.languages)) is not None:
            return engine, name
    raise lacking(kind, language, engines)


def own_name(language: str, names: Sequence[str]) -> str | None:
    """An engine may write `EN` or `zh_CN`; jobs come with `en` and `zh-CN`."""
    return next((name for name in names if tag(name) == language), None)


@functools.lru_cache(maxsize=1024)
def tag(name: str) -> str:
    return tag_of(name) or name


def lacking(kind: str, what: str, engines: Sequence[object]) -> ModelNotAvailable:
    """What was declared a heartbeat ago may be gone by now; another node does the job."""
    return ModelNotAvailable(
        f"no {kind} for {what} is available on this node", service_id(engines[0], kind) if engines else ""
    )


def service_id(engine: object, kind: str) -> str:
    return f"{getattr(engine, 'name', type(engine).__name__.lower())}-{kind}"
