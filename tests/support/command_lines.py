"""Finds the `lingua` commands of a shell script, and parses each with the real definition of the command."""

import re
import shlex
from collections.abc import Iterator

import click

from lingua_scheduler.cli.main import main

_NAME = "lingua"
# What ends a command; redirections too, because nothing of what follows them belongs to it in the documents.
_ENDS = {"|", "||", "&", "&&", ";", "(", ")", "<", ">", ">>", "<<", "{", "}", "\n"}
# Words after which a command begins.
_BEFORE = {"--", "then", "do", "else", "!", "exec", "sudo"}
_INNER = re.compile(r"\$\(([^()]*)\)")
_FILES = (click.Path, click.File)


def commands(script: str) -> Iterator[list[str]]:
    """The arguments of every `lingua` in the script, also in `$(…)`."""
    for inner in _INNER.findall(script):
        yield from commands(inner)
    for line in _INNER.sub("INNER", script.replace("\\\n", " ")).splitlines():
        yield from _of_line(line)


def _of_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>{}")
    lexer.whitespace_split = True
    begins = True
    command: list[str] | None = None
    for word in [*lexer, "\n"]:
        if word in _ENDS:
            if command is not None:
                yield command
            begins, command = True, None
        elif command is not None:
            command.append(word)
        elif begins and word.rpartition("/")[2] == _NAME:
            command = []
        else:
            # Variables stand before a command.
            begins = word in _BEFORE or (begins and re.match(r"\w+=", word) is not None)


def fault(arguments: list[str]) -> str | None:
    """Why the command would not accept these arguments. Files need not exist."""
    command: click.Command = main
    context: click.Context | None = None
    rest = arguments
    try:
        while True:
            # Arguments that are missing are reported by _checked, with those of options.
            # With the settings of all: a command keeps the first help option that it is asked for.
            context = click.Context(command, context, command.name, **command.context_settings)
            given, rest, _ = command.make_parser(context).parse_args(list(rest))
            if {"help", "version"} & given.keys():
                return None
            _checked(command, context, given)
            if not isinstance(command, click.Group):
                return f"unexpected argument {rest[0]!r}" if rest else None
            if not rest:
                return f"{command.name}: no sub-command" if not command.invoke_without_command else None
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None, name
            command = found
    except click.ClickException as error:
        return error.format_message()


def _checked(command: click.Command, context: click.Context, given: dict[str, object]) -> None:
    for parameter in command.params:
        value = given.get(parameter.name or "")
        # Flags are numbers and truth values; what is absent is a marker of click's own.
        if not value or not isinstance(value, str | list | tuple | int):
            if parameter.required:
                raise click.MissingParameter(ctx=context, param=parameter)
        elif not isinstance(parameter.type, _FILES) and not isinstance(value, int):
            parameter.type_cast_value(context, value)
