"""Puts a fault into functions that are imported already, which saves importing the source and its tests again."""

import inspect
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType


def patch(before: str, after: str, path: str, functions: Iterable[FunctionType]) -> bool:
    """Whether it could be done: not for what runs when the module is imported."""
    old, new = compile(before, path, "exec"), compile(after, path, "exec")
    if _imported(old) != _imported(new):
        return False
    # Equal code has the same name, line and content.
    changed = dict(zip(_functions(old), _functions(new), strict=True))
    done = False
    for function in functions:
        code = changed.get(function.__code__)
        if code is not None and code != function.__code__:
            if code.co_freevars != function.__code__.co_freevars:
                return False
            function.__code__ = code
            done = True
    return done


def _bodies(code: CodeType) -> Iterator[CodeType]:
    return (one for one in code.co_consts if isinstance(one, CodeType))


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Functions of the module and methods of its classes; what is inside them comes with them."""
    for one in _bodies(code):
        if one.co_flags & inspect.CO_OPTIMIZED:
            yield one
        else:
            yield from _functions(one)


def _imported(code: CodeType) -> tuple[object, ...]:
    """What runs at import: the module's body and those of its classes."""
    constants = tuple(_named(one) if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts)
    return code.co_code, code.co_names, constants


def _named(code: CodeType) -> object:
    return code.co_qualname if code.co_flags & inspect.CO_OPTIMIZED else _imported(code)
