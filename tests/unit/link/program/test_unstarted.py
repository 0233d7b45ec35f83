"""What came in place of the greeting, in words and in what is to be done. What a real sshd gives: tests/acceptance/test_login_troubles.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.model.endpoint import Endpoint, JumpHost
from vgpumgr.errors import HostDeadline, HostError, NotStarted, ProgramFailed
from vgpumgr.host.protocol.session import DISPATCHER_SAYS
from vgpumgr.link.program.unstarted import Instead, failure, late
from vgpumgr.names import HostName

ROOT = Endpoint(
    host=HostName("kvm01"), address="192.0.2.1", port=22, user="root", key_file=None, known_hosts="/known_hosts"
)
NOTHING = Instead(printed=b"", said=(), status=1, forced_by=None)


@given(
    st.builds(
        Instead,
        printed=st.binary(max_size=200),
        said=st.lists(st.text(max_size=40), max_size=9),
        status=st.none() | st.integers(0, 255),
        forced_by=st.none() | st.text(max_size=40),
    ),
    st.booleans(),
)
def test_whatever_comes_is_one_printable_error_with_a_stage_and_a_way_on(instead: Instead, become: bool) -> None:
    endpoint = replace(ROOT, become=become)
    for error in (failure(endpoint, instead), late(endpoint, instead, 20)):
        if error is not None:
            assert isinstance(error, HostError)
            assert error.exit_code == 4
            assert error.hint
            assert all(text.isprintable() for text in (error.message, error.hint, *error.details))
            assert len(error.details) <= 9


@pytest.mark.parametrize(
    "instead",
    [
        NOTHING._replace(status=None),
        NOTHING._replace(status=137),
        NOTHING._replace(said=("Traceback (most recent call last):", "MemoryError")),
    ],
)
def test_a_program_that_was_killed_or_failed_is_not_taken_for_another(instead: Instead) -> None:
    assert failure(ROOT, instead) is None


def test_what_the_dispatcher_says_comes_before_what_is_said_of_its_forced_command() -> None:
    instead = NOTHING._replace(said=(f"{DISPATCHER_SAYS}altered",), forced_by="/authorized_keys:1")
    assert type(failure(ROOT, instead)) is ProgramFailed


def test_the_command_that_shows_it_goes_the_same_way() -> None:
    far = replace(ROOT, key_file="/keys/my key", jumps=(JumpHost(address="gate", port=2222, user="ops"),))
    error = failure(far, NOTHING)
    assert isinstance(error, NotStarted)
    assert "`ssh -J ops@gate:2222 -i '/keys/my key' -p 22 root@192.0.2.1 true`" in (error.hint or "")


def test_nobody_but_root_is_kept_out_by_etc_nologin() -> None:
    error = failure(replace(ROOT, user="ops"), NOTHING._replace(status=254, said=("Going down.",)))
    assert isinstance(error, NotStarted)
    assert error.what == "program: nobody but root may log in now"
    assert error.details == ("it says: Going down.",)


def test_on_the_controller_itself_nothing_is_said_of_logins() -> None:
    here = replace(ROOT, is_local=True, become=True)
    assert failure(here, NOTHING) is None
    error = late(here, NOTHING._replace(status=None), 20)
    assert type(error) is HostDeadline
    assert error.hint == "this machine is overloaded, or sudo waits; a larger --timeout waits longer"
