"""What goes wrong in the middle of one command, as values that hypothesis draws and prints."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.model.people import MAX_VMS

SUDDEN = ("kill", "host-program-killed")  # after these the same command again must come to its end
_POINTS = ("planned", "written", "read-back", "made", "leaving", "out")  # host/steps/steps.py passes them in a step
_HARDWARE = ("reboot", "remove", "make")
_BOB = ("other-attach", "other-detach", "other-reserve", "other-reconcile")
_CALLS = 18  # an attach and a detach make some 14 calls, a replacement more
_CALLS_INSIDE = 14


@dataclass(frozen=True, slots=True)
class Plot:
    """The kind, and at which of the command's calls, or of those `inside` the host's lock, or of a step's points.

    `number` is for what it is about.
    """

    kind: str
    at: int
    inside: bool = False
    point: str | None = None
    number: int = 0


def _at_calls(*kinds: str) -> st.SearchStrategy[Plot]:
    kind, number = st.sampled_from(kinds), st.integers(0, MAX_VMS - 1)
    anywhere = st.builds(Plot, kind, at=st.integers(0, _CALLS), number=number)
    return anywhere | st.builds(Plot, kind, at=st.integers(0, _CALLS_INSIDE), inside=st.just(True), number=number)


plots = st.one_of(
    st.none(),
    _at_calls("kill"),
    st.builds(Plot, st.just("host-program-killed"), at=st.integers(0, 1), point=st.sampled_from(_POINTS)),
    _at_calls("start"),
    _at_calls(*_HARDWARE),
    _at_calls(*_BOB),
)
