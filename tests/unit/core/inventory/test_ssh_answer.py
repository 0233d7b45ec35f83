"""What counts of the output of `ssh -G`, and that the inventory's own settings win."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.inventory import jump_hosts, ssh_answer
from vgpumgr.core.inventory.ssh_answer import Answer, NotHonoured
from vgpumgr.core.model.endpoint import Endpoint, JumpHost, Setting
from vgpumgr.names import HostName

PLAIN = (
    "host kvm01\nuser root\nhostname kvm01\nport 22\nidentityfile /vgpumgr/unsaid\n"
    "userknownhostsfile /vgpumgr/unsaid\nglobalknownhostsfile /vgpumgr/unsaid\n"
)
ALL: frozenset[Setting] = frozenset(get_args(Setting))
INVENTORY = Endpoint(
    host=HostName("kvm01"),
    address="kvm01",
    port=22,
    user="root",
    key_file=None,
    known_hosts="/home/anna/.ssh/known_hosts",
    may_become=True,
    unsaid=ALL,
)
OTHER = Answer(
    address="10.0.0.5",
    port=2222,
    user="ops",
    key_files=("/k/absent", "/k/a", "/k/b"),
    certificate="/k/a-cert.pub",
    known_hosts="/k/known_hosts",
    site_known_hosts="/k/site",
    agent="/k/agent",
    jumps=(jump_hosts.Hop("jump01", None, None),),
    host_keys=("ssh-ed25519",),
)


def parse(text: str, base: str = PLAIN) -> Answer:
    tokens = {"d": "/home/anna", "n": "kvm01", "u": "anna"}
    said = {line.split()[0] for line in text.splitlines()}
    kept = "".join(
        f"{line}\n" for line in base.splitlines() if line.split()[0] not in said or line.startswith("identityfile")
    )
    return ssh_answer.parse(f"{text}\n{kept}", tokens, lambda path: path.replace("~/", "/home/anna/"))


def is_there(path: str) -> bool:
    return "absent" not in path


def test_where_no_file_says_anything_nothing_changes() -> None:
    assert parse("") == Answer(address="kvm01", port=22, user="root")
    settled = ssh_answer.apply(INVENTORY, parse(""), is_there=is_there)
    assert settled == replace(INVENTORY, unsaid=frozenset())


def test_each_setting_of_the_allow_list_is_read() -> None:
    answer = parse(
        "user ops\nhostname 10.0.0.5\nport 2222\nidentityfile ~/.ssh/a_%h\nidentityfile %d/%n-%r b\n"
        "certificatefile ~/.ssh/a-cert.pub\nuserknownhostsfile /k/known_hosts\nproxyjump jump01,ann@jump02:2222\n"
        "hostkeyalgorithms ssh-ed25519,rsa-sha2-512\nglobalknownhostsfile /k/site\nidentityagent ~/an agent\nknownhostscommand none"
    )
    assert answer == Answer(
        address="10.0.0.5",
        port=2222,
        user="ops",
        key_files=("/home/anna/.ssh/a_10.0.0.5", "/home/anna/kvm01-ops b"),
        certificate="/home/anna/.ssh/a-cert.pub",
        known_hosts="/k/known_hosts",
        jumps=(jump_hosts.Hop("jump01", None, None), jump_hosts.Hop("jump02", 2222, "ann")),
        host_keys=("ssh-ed25519", "rsa-sha2-512"),
        site_known_hosts="/k/site",
        agent="/home/anna/an agent",
    )


@pytest.mark.parametrize("said", ["none", "SSH_AUTH_SOCK", "$WORK_AGENT"])
def test_an_agent_that_is_no_path_is_kept_as_it_is_said(said: str) -> None:
    assert parse(f"identityagent {said}").agent == said


def test_a_site_may_do_without_the_second_file_of_host_keys() -> None:
    assert parse("globalknownhostsfile none").site_known_hosts == "/dev/null"


@pytest.mark.parametrize(
    ("line", "said", "fix"),
    [
        ("proxycommand nc %h %p", "ProxyCommand nc %h %p", "ProxyJump"),
        ("hostkeyalias other", "HostKeyAlias other", "known_hosts"),
        ("knownhostscommand /bin/keys %H", "KnownHostsCommand /bin/keys %H", "KnownHostsCommand none"),
        ("globalknownhostsfile /a /b", "GlobalKnownHostsFile /a /b", "one file"),
        ("identityagent ${DIR}/agent", "the path ${DIR}/agent", "the path itself"),
        ("userknownhostsfile /a /b", "UserKnownHostsFile /a /b", "one file"),
        ("userknownhostsfile /dev/null", "UserKnownHostsFile /dev/null", "always checked"),
        ("proxyjump a:b:c", "ProxyJump a:b:c", "user@jump01:22"),
        ("identityfile ~/%C", "the path ~/%C: %C", "the path itself"),
        ("identityfile ${KEY}", "the path ${KEY}", "the path itself"),
    ],
)
def test_what_ssh_would_obey_and_we_do_not_is_refused_by_name(line: str, said: str, fix: str) -> None:
    with pytest.raises(NotHonoured) as caught:
        parse(line)
    assert str(caught.value).startswith(said)
    assert fix in caught.value.hint


def test_what_the_inventory_leaves_open_is_taken() -> None:
    settled = ssh_answer.apply(INVENTORY, OTHER, is_there=is_there)
    assert (settled.address, settled.port, settled.user, settled.become) == ("10.0.0.5", 2222, "ops", True)
    assert (settled.key_file, settled.certificate) == ("/k/a", "/k/a-cert.pub")  # the first key that exists
    assert (settled.known_hosts, settled.host_keys) == ("/k/known_hosts", ("ssh-ed25519",))
    assert (settled.site_known_hosts, settled.agent) == ("/k/site", "/k/agent")
    assert [(jump.address, jump.user) for jump in settled.jumps] == [("jump01", "ops")]


@given(st.sets(st.sampled_from(sorted(ALL))))
def test_the_inventorys_own_settings_win(said: set[Setting]) -> None:
    mine = replace(
        INVENTORY,
        port=7,
        user="anna",
        key_file="/mine",
        known_hosts="/mine",
        site_known_hosts="/mine",
        agent="/mine",
        jumps=(JumpHost(address="mine", port=7, user="mine"),),
        unsaid=ALL - said,
    )
    settled = ssh_answer.apply(mine, OTHER, is_there=is_there)
    for name in ALL:
        assert (getattr(settled, name) == getattr(mine, name)) == (name in said)
    assert settled.address == OTHER.address  # an alias is what HostName is for


def test_a_user_who_is_not_root_needs_become() -> None:
    with pytest.raises(NotHonoured, match="User ops, who is not root") as caught:
        ssh_answer.apply(replace(INVENTORY, may_become=False), OTHER, is_there=is_there)
    assert "ansible_become: true" in caught.value.hint


@given(st.text(alphabet="abchostnameuserport proxyjumpidentityfile%~/.\n0123456789", max_size=200))
def test_any_output_is_an_answer_or_a_refusal(text: str) -> None:
    try:
        answer = ssh_answer.parse(text, {}, str)
    except ValueError:
        return
    assert answer.address
    assert answer.user
