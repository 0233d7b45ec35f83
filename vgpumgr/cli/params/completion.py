"""`vgpumgr completion SHELL` prints a shell's script, and the script calls `answer` at each TAB.

This is click's own machinery with two exceptions. Bash gets another script, because bash splits the line at each colon
before click's script sees it, and PCI addresses have colons. Zsh and fish replace a whole word, so they are given
`--option=value`, while click offers only the value.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from typing import TYPE_CHECKING, Any

import click
from click import shell_completion

from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.settings import COMPLETE, Settings

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem, ShellComplete

_BASH = """\
# Completion of %(prog_name)s for bash 4.4 or newer.
%(complete_func)s() {
    local type value word
    COMPREPLY=()
    word=${COMP_LINE:0:COMP_POINT}
    word=${word##*[[:space:]]}
    word=${word#--*=}
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                # bash replaces only what follows the last colon
                [[ $COMP_WORDBREAKS == *:* ]] && value=${value#"${word%%"${word##*:}"}"}
                COMPREPLY+=("$value")
                ;;
        esac
    done < <(COMP_LINE=${COMP_LINE:0:COMP_POINT} %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Safe(shell_completion.ShellComplete):
    """Offers only printable names: names from libvirt and the journal can contain anything, even line breaks."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        return [item for item in super().get_completions(args, incomplete) if item.value.isprintable()]


class _Bash(_Safe):
    """bash passes the line up to the cursor in COMP_LINE. It inserts an answer unquoted, so `$(…)` would be run at
    Enter: only words that need no quotes are offered.
    """

    name = "bash"
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = shell_completion.split_arg_string(line)[1:]
        incomplete = "" if not words or line[-1].isspace() else words.pop()
        return words, incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        items = super().get_completions(args, incomplete)
        return [item for item in items if item.type != "plain" or shlex.quote(item.value) == item.value]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"{item.type},{item.value}"


class _WholeWord(_Safe):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if option.startswith("--") and equals:
            for item in found:
                if item.type == "plain":
                    item.value = f"{option}={item.value}"
        return found


class _Zsh(_WholeWord, shell_completion.ZshComplete):
    pass


class _Fish(_WholeWord, shell_completion.FishComplete):
    pass


_SHELLS: dict[str, type[ShellComplete]] = {
    "bash": _Bash,
    "zsh": _Zsh,
    "fish": _Fish,
}


@click.command()
@click.argument("shell", type=click.Choice(tuple(_SHELLS)))
@common_options
def completion(_settings: Settings, *, shell: str) -> None:
    """Print the script that makes TAB complete commands, options, VMs, hosts, slots, GPUs and profiles in a shell.

    TAB reads the inventory's files, the journal and the catalogue of profiles. It contacts no host.

    For the current shell only:

    \b
      eval "$(vgpumgr completion bash)"
      eval "$(vgpumgr completion zsh)"
      vgpumgr completion fish | source

    Permanently: bash needs the package bash-completion; zsh needs the file in a directory of its fpath before compinit
    runs.

    \b
      vgpumgr completion bash > ~/.local/share/bash-completion/completions/vgpumgr
      vgpumgr completion zsh > ~/.zfunc/_vgpumgr
      vgpumgr completion fish > ~/.config/fish/completions/vgpumgr.fish
    """
    click.echo(_of(click.get_current_context().find_root().command, shell).source())


def answer(program: click.Command, instruction: str) -> None:
    """Print the candidates for the line that the shell left in the environment. `instruction`: SHELL_complete. Errors
    are not printed: they would garble the line that is being typed.
    """
    with contextlib.suppress(Exception):
        text = _of(program, instruction.removesuffix("_complete")).complete()
        if text:
            click.echo(text)


def _of(program: click.Command, shell: str) -> ShellComplete:
    return _SHELLS[shell](program, {}, "vgpumgr", COMPLETE)
