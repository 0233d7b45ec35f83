"""Asks ssh itself what the user's ssh_config says of a host: `ssh -G`, which connects to nothing.

It runs in the host's own thread, within its deadline, and only if the files have a keyword that counts
(config_files.py). ssh gets a file of ours that includes them and ends with values for what they leave out: ssh would
print its own defaults, which cannot be told from settings. As with ssh, `Match exec` in those files runs its command.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import pwd
import re
import shlex
import signal
import socket
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import files
from vgpumgr.core.inventory import ssh_answer
from vgpumgr.core.model.endpoint import NO_CONFIG, USUAL_CONFIG
from vgpumgr.errors import HostDeadline, SshConfigRefused
from vgpumgr.link import stages
from vgpumgr.link.deadlines import humanize
from vgpumgr.link.ssh import config_files
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.inventory.ssh_answer import Answer
    from vgpumgr.core.model.endpoint import Endpoint, JumpHost
    from vgpumgr.link.ssh.config_files import Found
    from vgpumgr.timing import Deadlines

STAGE = "config"
_NAME = re.compile(r"[\w:][\w.:%-]*")  # ssh accepts no others; in `Match exec` they would reach a shell
_MOST_JUMPS = 8
_SAID_BYTES = 300


def resolve(endpoint: Endpoint, deadlines: Deadlines) -> Endpoint:
    """The endpoint with what the files say of it and of its jump hosts. Raises SshConfigRefused, HostDeadline."""
    files_state = config_files.find(endpoint.ssh_config)
    if files_state.said is None:
        return endpoint
    own = config_files.own_file(endpoint.ssh_config)
    if endpoint.ssh_config != USUAL_CONFIG and not _is_there(own):
        raise SshConfigRefused(endpoint.host, STAGE, f"no file {own}", hint="-F in ansible_ssh_common_args names it")
    stages.enter(endpoint.host, STAGE)
    question = _Asking(endpoint, files_state, deadlines.dns)
    answer = question.of_host()
    return replace(answer, jumps=question.of_jumps(answer), ssh_config=NO_CONFIG)


class _Asking:
    def __init__(self, endpoint: Endpoint, found: Found, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._found = found
        self._timeout_s = timeout_s

    def of_host(self) -> Endpoint:
        one = self._endpoint
        answer = self._ask(
            one.address, one.user, one.port, one.unsaid, way=None if "jumps" in one.unsaid else _way(one.jumps)
        )
        if answer is None:
            return one
        try:
            return ssh_answer.apply(one, answer, is_there=_is_there)
        except ssh_answer.NotHonoured as error:
            raise self._not_honoured(error, one.address, None) from error

    def of_jumps(self, endpoint: Endpoint) -> tuple[JumpHost, ...]:
        """The endpoint's jump hosts. The first one's own jump hosts come before it, as with `ssh -J`."""
        chain = list(endpoint.jumps)
        done: list[JumpHost] = []
        while chain:
            jump = chain.pop()
            # `ssh -J a,b` reaches b through a, whatever the files say of the way to b.
            answer = self._ask(
                jump.address, jump.user, jump.port, jump.unsaid, way=_way(chain) if chain else None, via=jump.name
            )
            if answer is None:
                done.insert(0, jump)
                continue
            done.insert(0, ssh_answer.apply_to_jump(jump, answer, is_there=_is_there))
            if not chain:
                chain = [hop.of(done[0].user) for hop in answer.jumps]
            if len(done) + len(chain) > _MOST_JUMPS:
                text = f"more than {_MOST_JUMPS} jump hosts, one behind another"
                raise self._refused(text, f"a jump host must not be its own: ssh -G {jump.address} | grep proxyjump")
        return tuple(done)

    def _ask(
        self, name: str, user: str, port: int, unsaid: frozenset[str], *, way: str | None, via: str | None = None
    ) -> Answer | None:
        if not _NAME.fullmatch(name):
            return None
        if self._found.relative is not None:
            text = say("{} includes a file by a relative path", self._found.relative)
            raise self._refused(text, "write the whole path there, beginning with /etc/ssh/", via)
        options = [] if "user" in unsaid else ["-l", user]
        options += [] if "port" in unsaid else ["-p", str(port)]
        options += [] if way is None else ["-o", f"ProxyJump={way}"]
        try:
            output = _run((*options, "--", name), self._endpoint.ssh_config, user, self._timeout_s, self._found)
        except FileNotFoundError as error:
            text = say("ssh is not installed on this controller, and only ssh can read {}", self._found.said)
            hint = "apt-get install openssh-client; or -F none in ansible_ssh_common_args: no ssh_config is then read"
            raise self._refused(text, hint, via) from error
        except subprocess.TimeoutExpired as error:
            raise HostDeadline(
                self._endpoint.host,
                STAGE,
                say("`ssh -G {}` did not end within {}", Own(name), humanize(self._timeout_s)),
                via=via,
                hint="a command of `Match exec`, or CanonicalizeHostname, hangs?",
            ) from error
        except (_Failed, OSError) as error:
            text = say("`ssh -G {}` fails: {}", Own(name), error)
            raise self._refused(text, self._by_hand(name), via) from error
        try:
            return ssh_answer.parse(output, _tokens(name), _expand_home)
        except ssh_answer.NotHonoured as error:
            raise self._not_honoured(error, name, via) from error
        except ValueError as error:
            text = say("`ssh -G {}` is not understood: {}", Own(name), error)
            raise self._refused(text, self._by_hand(name), via) from error

    def _not_honoured(self, error: ssh_answer.NotHonoured, name: str, via: str | None) -> SshConfigRefused:
        where = config_files.own_file(self._endpoint.ssh_config)
        hint = f"{error.hint} (`{self._by_hand(name)}` reads {where}; -F in ansible_ssh_common_args names another file)"
        text = say("ssh_config says {} for {}, which is not honoured", error, Own(name))
        return self._refused(text, hint, via)

    def _by_hand(self, name: str) -> str:
        """The command by which a user reads the same file."""
        file = self._endpoint.ssh_config
        return f"ssh {'' if file == USUAL_CONFIG else f'-F {shlex.quote(file)} '}-G {name}"

    def _refused(self, text: str, hint: str, via: str | None = None) -> SshConfigRefused:
        return SshConfigRefused(self._endpoint.host, STAGE, text, via=via, hint=hint)


def _way(chain: Sequence[JumpHost]) -> str:
    """The ProxyJump given to ssh if the way is known, so that the files do not set it."""
    return "vgpumgr-knows" if chain else "none"


class _Failed(Exception):
    """ssh ended with an error; the text is what it says of the cause."""


@functools.lru_cache(maxsize=4096)
def _run(arguments: tuple[str, ...], file: str, user: str, timeout_s: float, _state: Found) -> str:
    """The output of ssh for one host. It is cached until a file changes."""
    ours = os.memfd_create("ssh_config")
    try:
        os.write(ours, _config(file, user).encode())
        process = subprocess.Popen(
            ["ssh", "-G", "-F", "/proc/self/fd/0", *arguments],  # ssh closes all others, and may read this one twice
            stdin=ours,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # no terminal: it cannot prompt, and only we get a Ctrl-C
        )
    finally:
        os.close(ours)
    with process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what `Match exec` runs
            raise
    if process.returncode != 0:
        raise _Failed(_cause(errors.decode(errors="replace")) or f"exit status {process.returncode}")
    return output.decode(errors="replace")


def _cause(errors: str) -> str:
    """The first lines of ssh, with file and line. Not its last: "FILE: terminating, 1 bad configuration options"."""
    lines = errors.strip().splitlines()
    causes = [line for line in lines if ": terminating, " not in line and not line.startswith("Pseudo-terminal ")]
    return "; ".join((causes or lines)[:2])[:_SAID_BYTES]


def _config(path: str, user: str) -> str:
    files = [config_files.own_file(path), *([config_files.SYSTEM] if path == USUAL_CONFIG else [])]
    name = user.replace("\\", "\\\\")
    lines = [
        *(f'Include "{_literally(file)}"' for file in files),
        f'User "{name}"',
        f"IdentityFile {ssh_answer.UNSAID}",
        f"UserKnownHostsFile {ssh_answer.UNSAID}",
        f"GlobalKnownHostsFile {ssh_answer.UNSAID}",
    ]
    return "\n".join(lines) + "\n"


def _literally(file: str) -> str:
    """A path, escaped for Include, which expands wildcards (*, ? and [) and reads backslashes twice."""
    return glob.escape(file.replace("\\", "\\\\")).replace("\\", "\\\\").replace('"', '\\"')


def _tokens(name: str) -> dict[str, str]:
    local = pwd.getpwuid(os.getuid()).pw_name
    return {
        "d": config_files.home(),
        "i": str(os.getuid()),
        "k": name,
        "l": socket.gethostname(),
        "n": name,
        "u": local,
    }


def _expand_home(path: str) -> str:
    """Expand ~ to the account's home, whatever $HOME is, and ~USER to that user's."""
    return os.path.join(config_files.home(), path[2:]) if path.startswith("~/") else str(files.expanded(path))  # noqa: PTH118 -- text


def _is_there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 -- text
