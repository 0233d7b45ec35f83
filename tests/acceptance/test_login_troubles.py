"""What can be wrong with a login: each is recognised and told with its stage and its fix, in a run over all of them.

One host has a user for each trouble, and an sshd for each that is not a user's; in the inventory each is a host of its own.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr
from vgpumgr.lab.machine import sshd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 2}], vms: [vm1]}
"""
FIRST_UID = 3000
EVERYTHING = "{user} ALL=(ALL:ALL) NOPASSWD: ALL"
HANG_S = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A user of the host. `home` is a script that runs in its home, `key` stands before the key in its authorized_keys,
    `match` are its lines of sshd_config, `dates` the last fields of its line in /etc/shadow.
    """

    user: str
    home: str = ""
    key: str = ""
    match: str = ""
    sudoers: str = EVERYTHING
    shell: str = "/bin/bash"
    password: str = "*"
    dates: str = "20000:0:99999:7:::"
    sshd: str = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble(Login):
    """A login that fails, and what is said of it: class and stage of the error, a part of the message, and of the fix."""

    error: str
    stage: str
    what: str
    fix: str


def become(user: str, what: str, fix: str, **login: str) -> Trouble:
    return Trouble(user=user, error="BecomeFailed", stage="become", what=what, fix=fix, **login)


def program(user: str, what: str, fix: str, **login: str) -> Trouble:
    return Trouble(user=user, error="NotStarted", stage="program", what=what, fix=fix, **login)


def auth(user: str, what: str, fix: str, **login: str) -> Trouble:
    return Trouble(user=user, error="AuthenticationFailed", stage="auth", what=what, fix=fix, **login)


def late(user: str, what: str, fix: str, **login: str) -> Trouble:
    return Trouble(user=user, error="HostDeadline", stage="program", what=what, fix=fix, **login)


FORCED = "/home/{user}/.ssh/authorized_keys:1 forces a command upon our key"
OTHER = "something other than the host program answers the login of {user}"
NOT_TAKEN = "the host does not take "
TROUBLES = (
    become("pw", "sudo asks pw for a password", "pw ALL=(root) NOPASSWD: ALL", sudoers="{user} ALL=(ALL:ALL) ALL"),
    become("unknown", "sudo asks unknown for a password", "unknown ALL=(root) NOPASSWD: ALL", sudoers=""),
    become("norule", "sudo does not let norule", "norule ALL=(root) NOPASSWD: ALL", sudoers="Defaults:{user} !authenticate"),
    become("other", "sudo does not let other", "other ALL=(root) NOPASSWD: ALL", sudoers=f"{EVERYTHING}, !/bin/sh"),
    become("tty", "sudo wants a terminal of tty", "Defaults:tty !requiretty", sudoers=f"Defaults:{{user}} requiretty\n{EVERYTHING}"),
    become("pamsudo", "PAM does not let pamsudo become root", "chage -l pamsudo"),
    become("nosudo", "there is no sudo", "install it there", sshd="nosudo"),
    program("forced", f"{FORCED}, which printed text of its own and ended with exit status 0", "no command=", key='command="echo Backups only." '),
    program("forcedend", f"{FORCED}, which printed nothing and ended with exit status 3", "no command=", key='command="exit 3" '),
    program("force", f"{OTHER}: it printed text of its own and ended", "ForceCommand", match="ForceCommand echo Backups only."),
    program("forceend", f"{OTHER}: it printed nothing and ended with exit status 1", "ForceCommand", match="ForceCommand false"),
    program("sftp", OTHER, "ForceCommand", match="ForceCommand internal-sftp"),
    program("nologin", "the login shell of nologin is nologin", "usermod -s /bin/sh nologin", shell="/usr/sbin/nologin"),
    program("false", f"{OTHER}: it printed nothing and ended with exit status 1", "getent passwd false", shell="/bin/false"),
    program("exits", f"{OTHER}: it printed nothing and ended with exit status 0", "~/.bashrc", home="echo exit > .bashrc"),
    program("reads", "reads the input for the host program", "[ -t 0 ]", home="echo read -r choice > .bashrc"),
    program("bites", "reads the input for the host program", "[ -t 0 ]", home="echo read -n 1 choice > .bashrc"),
    program("floods", f"{OTHER}: it printed text without end", "prints nothing", home="echo yes floods > .bashrc"),
    program("aged", "the password of aged has expired", "passwd aged", dates="0:0:99999:7:::", sshd="pam"),
    program("off", "nobody but root may log in now", "rm /etc/nologin", sshd="off"),
    program("oldpython", "no Python 3.9 or newer", "apt-get install python3", sshd="oldpython"),
    program("nopython", "no Python 3.9 or newer", "apt-get install python3", sshd="nopython"),
    Trouble(user="nosession", error="Unreachable", stage="program", what="opens no further session", fix="MaxSessions 0", match="MaxSessions 0"),
    auth("trusts", NOT_TAKEN, "namei -l ~trusts/.ssh/authorized_keys", home="chmod 777 ."),
    auth("locked", NOT_TAKEN, "passwd -S locked", password="!"),
    auth("expired", NOT_TAKEN, "chage -l expired", dates="20000:0:99999:7::1:"),
    auth("noshell", NOT_TAKEN, "getent passwd noshell", shell="/bin/nosuchshell"),
    auth("denied", NOT_TAKEN, "DenyUsers", home=":"),
    auth("keyless", NOT_TAKEN, "ssh-copy-id", home="> .ssh/authorized_keys"),
    auth("nokeys", "nokeys cannot log in with a key there; sshd allows password", "PubkeyAuthentication yes", match="AuthenticationMethods password\nPasswordAuthentication yes"),
    auth("second", "but also wants password", "AuthenticationMethods publickey", match="AuthenticationMethods publickey,password\nPasswordAuthentication yes"),
    auth("pamexpired", "the account pamexpired has expired", "chage -E -1 pamexpired", dates="20000:0:99999:7::1:", sshd="pam"),
    Trouble(user="pamoff", error="Unreachable", stage="auth", what="nobody but root may log in now", fix="rm /run/nologin", sshd="pam"),
    Trouble(user="pamdeny", error="Unreachable", stage="auth", what="PAM does not let pamdeny in", fix="journalctl", sshd="pam"),
    Trouble(user="full", error="Unreachable", stage="banner", what="Exceeded MaxStartups", fix="MaxStartups", sshd="full"),
)  # fmt: skip
HANGING = (
    late("forcedhang", f"{FORCED}, and no greeting came within {HANG_S} s", "no command=", key='command="sleep 600" '),
    late("forcehang", f"no answer within {HANG_S} s", "a forced command, a login script or sudo", match="ForceCommand sleep 600"),
    late("chatty", f"{OTHER}: text of its own, and no greeting within {HANG_S // 2} s", "ForceCommand", match="ForceCommand echo Menu; sleep 600"),
    late("rchang", f"no answer within {HANG_S} s", "a login script", home="echo sleep 600 > .bashrc"),
)  # fmt: skip
HARMLESS = (
    Login(user="motd", home="echo 'echo Welcome; echo Mind the gap.; echo no error >&2' > .bashrc"),
    Login(user="title", home=r"""echo 'printf "\033]0;title\007\377"' > .bashrc"""),
    Login(user="profile", home="echo '. /etc/profile' > .bashrc"),
    Login(user="wrapped", key=r'command="echo logged; eval \"$SSH_ORIGINAL_COMMAND\"" '),
    Login(user="banner", match="Banner /etc/ssh/banner"),
)
SPARING = Login(user="sparing", match="MaxSessions 1")
LOGINS: tuple[Login, ...] = (*TROUBLES, *HANGING, *HARMLESS, SPARING)

# What is hidden of the host's files from an sshd and all that it starts, and what is there in its place.
_OVER = "mkdir -p /run/{name}/up /run/{name}/work; mount -t overlay -o lowerdir={dir},upperdir=/run/{name}/up,workdir=/run/{name}/work over {dir}; "
_OLD = """#!/usr/bin/python3.real -IS
import sys
sys.version_info = (3, 8, 19)
exec(sys.argv[sys.argv.index("-c") + 1])
"""
SSHDS = {
    "plain": "",
    "full": "",
    "pam": "",
    "nosudo": _OVER.format(name="nosudo", dir="/usr/bin") + "rm /usr/bin/sudo",
    "nopython": _OVER.format(name="nopython", dir="/usr/bin") + "rm /usr/bin/python3",
    "oldpython": _OVER.format(name="oldpython", dir="/usr/bin")
    + f"mv /usr/bin/python3 /usr/bin/python3.real; printf %s {shlex.quote(_OLD)} > /usr/bin/python3; chmod 755 /usr/bin/python3",
    "off": _OVER.format(name="off", dir="/etc") + "echo Maintenance. > /etc/nologin",
}
CONFIG = {
    "pam": "UsePAM yes",
    "full": "MaxStartups 1",
}
PAM = """\
account [success=1 default=ignore] pam_succeed_if.so quiet user != pamoff
account required pam_nologin.so file=/etc/ssh/nologin.txt
account required pam_succeed_if.so quiet user != pamdeny
account required pam_unix.so
session required pam_permit.so
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The lab, reached by an inventory that has each login as a host."""

    lab: Lab
    inventory: Path
    known_hosts: Path
    port: int

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.lab.run("-i", str(self.inventory), *arguments)


def account(login: Login, uid: int, key: str) -> str:
    """The script that makes it."""
    home, user = f"/home/{login.user}", login.user
    quoted = [
        shlex.quote(text)
        for text in (
            f"{user}:x:{uid}:{uid}::{home}:{login.shell}",
            f"{user}:x:{uid}:",
            f"{user}:{login.password}:{login.dates}",
            login.key + key,
            login.sudoers.format(user=user),
        )
    ]
    return f"""
echo {quoted[0]} >> /etc/passwd; echo {quoted[1]} >> /etc/group; echo {quoted[2]} >> /etc/shadow
mkdir -p {home}/.ssh; cd {home}; echo {quoted[3]} > .ssh/authorized_keys; chmod 700 .ssh; chown -R {uid}:{uid} .
echo {quoted[4]} > /etc/sudoers.d/{user}; chmod 440 /etc/sudoers.d/{user}
{login.home}
"""


def sshd_config(name: str, port: int) -> str:
    matches = "".join(f"Match User {one.user}\n{one.match}\n" for one in LOGINS if one.match)
    own = CONFIG.get(name, "MaxStartups 100")
    replaced = ("AuthenticationMethods", "PidFile", "MaxStartups")
    kept = [line for line in sshd.config_text(port).splitlines() if not line.startswith(replaced)]
    return "\n".join((own, f"PidFile /run/{name}.pid", "DenyUsers denied", *kept, matches))


def start_all(lab: Lab, ports: dict[str, int]) -> None:
    """Make the users and start the sshds."""
    key = (lab.dir / "key.pub").read_text(encoding="ascii").strip()
    script = ["set -e", f"printf %s {shlex.quote(PAM)} > /etc/pam.d/sshd", "echo Be careful. > /etc/ssh/banner"]
    script += [
        "echo System is going down. > /etc/ssh/nologin.txt",
        "echo 'echo Hello from profile.d' > /etc/profile.d/zz-hello.sh",
    ]
    script += [
        "echo 'account required pam_succeed_if.so quiet user != pamsudo' > /tmp/sudo; cat /etc/pam.d/sudo >> /tmp/sudo; cp /tmp/sudo /etc/pam.d/sudo"
    ]
    script += [account(login, FIRST_UID + at, key) for at, login in enumerate(LOGINS)]
    for name, port in ports.items():
        config = f"/etc/ssh/{name}"
        script += [f"printf %s {shlex.quote(sshd_config(name, port))} > {config}"]
        start = f"{SSHDS[name] or ':'}; exec /usr/sbin/sshd -f {config}"
        script += [f"unshare -m sh -ec {shlex.quote(start)}"]
    lab.must(HOST, "sh", text="\n".join(script))


@pytest.fixture(scope="module")
def site(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("troubles")
    lab = lab_factory(SPEC, own="its host has users and sshds of all kinds")
    with contextlib.ExitStack() as stack:
        reserved = {name: stack.enter_context(sshd.reserve_port()) for name in SSHDS}
        ports: dict[str, int] = {name: one.getsockname()[1] for name, one in reserved.items()}
        start_all(lab, ports)
        host_key = lab.layout.known_hosts.read_text(encoding="ascii").split(" ", 1)[1]
        known_hosts = folder / "known_hosts"
        known_hosts.write_text("".join(f"[127.0.0.1]:{port} {host_key}" for port in ports.values()), encoding="ascii")
        hosts = {one.user: {"ansible_user": one.user, "ansible_port": ports[one.sshd]} for one in LOGINS}
        shared = {
            "ansible_host": "127.0.0.1",
            "ansible_become": True,
            "ansible_ssh_private_key_file": str(lab.dir / "key"),
            "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={known_hosts}",
        }
        (folder / "hosts.yml").write_text(
            json.dumps({"hypervisors": {"hosts": hosts, "vars": shared}}), encoding="utf-8"
        )
        for port in ports.values():
            sshd.wait_banner(port)
        stack.enter_context(occupied(ports["full"]))
        yield Site(lab=lab, inventory=folder / "hosts.yml", known_hosts=known_hosts, port=ports["plain"])


@contextlib.contextmanager
def occupied(port: int) -> Iterator[None]:
    """Somebody else is about to log in there, for as long as the block lasts."""
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            if one.recv(4) == b"SSH-":
                yield
                return
        time.sleep(0.05)
    pytest.fail("no place was free")


def read_all(site: Site, logins: Sequence[Login], *arguments: str) -> dict[str, Any]:
    """Each error of `list` over these hosts, by the host."""
    names = [one.user for one in logins]
    ran = vgpumgr(site, "list", *names, *arguments, "-o", "json", code=4)
    document = json.loads(ran.out)
    assert document["outcomes"] == ["unreached"], set(names) - {row["host"] for row in document["unreached"]}
    return {row["host"]: row for row in document["unreached"]}


@pytest.fixture(scope="module")
def failures(site: Site) -> dict[str, Any]:
    return read_all(site, TROUBLES)


@pytest.fixture(scope="module")
def deadlines(site: Site) -> dict[str, Any]:
    return read_all(site, HANGING, "--timeout", str(HANG_S))


def check(trouble: Trouble, row: dict[str, Any]) -> None:
    expected = trouble.what.replace("{user}", trouble.user)
    assert row["error"] == trouble.error, row
    assert row["message"].startswith(f"{trouble.user}: {trouble.stage}: "), row
    assert expected in row["message"], row
    assert trouble.fix in "\n".join((row["hint"], *row["details"])), row
    assert all(text.isprintable() for text in (row["message"], row["hint"], *row["details"])), row


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.user)
def test_each_trouble_of_a_login_is_told_with_its_stage_and_its_fix(failures: dict[str, Any], trouble: Trouble) -> None:
    check(trouble, failures[trouble.user])


@pytest.mark.parametrize("trouble", HANGING, ids=lambda one: one.user)
def test_a_login_that_hangs_ends_at_its_deadline_with_what_may_hang(
    deadlines: dict[str, Any], trouble: Trouble
) -> None:
    check(trouble, deadlines[trouble.user])


def test_people_read_the_fix_last(site: Site) -> None:
    lines = vgpumgr(site, "list", "forced", "--quiet", code=4).err.splitlines()
    assert lines[0].startswith("error: forced: program: /home/forced/.ssh/authorized_keys:1 ")
    assert lines[1:] == [
        "  it says: Backups only.",
        "hint: give vgpumgr a key of its own, whose line in that file has no command= but the dispatcher's (`vgpumgr docs logins`)",
    ]


@pytest.mark.parametrize("login", HARMLESS, ids=lambda one: one.user)
def test_what_a_login_prints_without_harm_is_no_trouble(site: Site, login: Login) -> None:
    options = ("-F", "none", "-i", str(site.lab.dir / "key"), "-o", f"UserKnownHostsFile={site.known_hosts}")
    plain = ["ssh", *options, "-p", str(site.port), f"{login.user}@127.0.0.1", "true"]
    done = subprocess.run(plain, capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=600)
    assert done.stdout + done.stderr != b""
    vgpumgr(site, "attach", "vm1", "--profile", "4Q", "--on", login.user, "--check", code=3)


def test_one_session_for_each_connection_is_enough(site: Site) -> None:
    vgpumgr(site, "list", SPARING.user)
