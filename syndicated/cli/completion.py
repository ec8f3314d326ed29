"""`syndicated completion`: scripts that let a shell complete commands, options and their values."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from syndicated.environments import ENVIRONMENTS
from syndicated.policies import POLICIES
from syndicated.tuners import TUNERS

REGISTRIES: Mapping[str, Mapping[str, Any]] = {
    "--policy": POLICIES,
    "--tuner": TUNERS,
    "--environment": ENVIRONMENTS,
}


class Completion(NamedTuple):
    """What can follow a command: its help, its options with theirs, and the values of those that have a choice.

    The values of "" are words that are no options.
    """

    help: str
    options: dict[str, str]
    values: dict[str, list[str]]


def add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(SCRIPTS))
    parser.set_defaults(command=lambda options: print(SCRIPTS[options.shell](completions()), end=""))


def completions() -> dict[str, Completion]:
    """Every command, as its own parser has it."""
    from syndicated.cli import COMMANDS, Command  # it imports this module

    found = {}
    for name, help_, module, add_arguments in COMMANDS:
        command = Command(prog=f"syndicated {name}", module=module, add_arguments=add_arguments)
        command.load()
        flags = [(flag, action) for action in command._actions for flag in action.option_strings or ("",)]
        values: dict[str, list[str]] = {}
        for flag, action in flags:
            known: Iterable[object] = action.choices or REGISTRIES.get(flag, {})
            if words := [str(word) for word in known]:
                values[flag] = values.get(flag, []) + words
        found[name] = Completion(help_, {flag: _plain(action.help) for flag, action in flags if flag}, values)
    return found


def _plain(help_: str | None) -> str:
    """A help text that may stand between quotes."""
    return (help_ or "").translate(str.maketrans("", "", "'\"`$\\"))


def _bash(commands: Mapping[str, Completion]) -> str:
    return f"""\
# bash completion of syndicated: source this, or keep it as ~/.local/share/bash-completion/completions/syndicated
_syndicated() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{_names(commands)}" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}} $before" in
{_cases(commands, '        "{}") words="{}" ;;')}
    esac
    if [ -z "$words" ]; then
        case "${{COMP_WORDS[1]}} ${{word:0:1}}" in
{_option_cases(commands, '            "{} -") words="{}" ;;')}
{_positional_cases(commands, '            "{} "*) words="{}" ;;')}
        esac
    fi
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _syndicated syndicated
"""


def _zsh(commands: Mapping[str, Completion]) -> str:
    return f"""\
#compdef syndicated
# zsh completion of syndicated: keep it as _syndicated in a folder of $fpath, or source it after compinit
_syndicated() {{
    local before=$words[CURRENT-1]
    if (( CURRENT == 2 )); then
        compadd -- {_names(commands)}
        return
    fi
    case "$words[2] $before" in
{_cases(commands, '        ("{}") compadd -- {}; return ;;')}
    esac
    case "$words[2] ${{PREFIX[1]}}" in
{_option_cases(commands, '        ("{} -") compadd -- {}; return ;;')}
{_positional_cases(commands, '        ("{} "*) compadd -- {}; return ;;')}
    esac
    _files
}}
if [ "$funcstack[1]" = "_syndicated" ]; then
    _syndicated "$@"
else
    compdef _syndicated syndicated
fi
"""


def _fish(commands: Mapping[str, Completion]) -> str:
    lines = ["# fish completion of syndicated: keep it as ~/.config/fish/completions/syndicated.fish"]
    for name, command in commands.items():
        lines.append(f"complete -c syndicated -n __fish_use_subcommand -f -a {name} -d '{_plain(command.help)}'")
        after = f"complete -c syndicated -n '__fish_seen_subcommand_from {name}'"
        for flag, help_ in command.options.items():
            kind = "-l" if flag.startswith("--") else "-s"
            values = f" -x -a '{' '.join(command.values[flag])}'" if flag in command.values else ""
            lines.append(f"{after} {kind} {flag.lstrip('-')}{values} -d '{help_}'")
        if "" in command.values:
            lines.append(f"{after} -f -a '{' '.join(command.values[''])}'")
    return "\n".join(lines) + "\n"


def _names(commands: Mapping[str, Completion]) -> str:
    return " ".join(commands)


def _cases(commands: Mapping[str, Completion], form: str) -> str:
    """A line for every option that has values."""
    pairs = [(name, flag, words) for name, one in commands.items() for flag, words in one.values.items() if flag]
    return "\n".join(form.format(f"{name} {flag}", " ".join(words)) for name, flag, words in pairs)


def _option_cases(commands: Mapping[str, Completion], form: str) -> str:
    """A line for the options of every command."""
    return "\n".join(form.format(name, " ".join(one.options)) for name, one in commands.items())


def _positional_cases(commands: Mapping[str, Completion], form: str) -> str:
    """A line for every command that takes one of a few words."""
    return "\n".join(form.format(name, " ".join(one.values[""])) for name, one in commands.items() if "" in one.values)


SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
