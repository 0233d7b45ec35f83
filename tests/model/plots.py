"""What goes wrong in the middle of one command, as values that hypothesis draws and prints."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.model.people import MAX_VMS

SUDDEN = ("kill", "host-program-killed")  # after these the same command again must come to its end
_POINTS = ("planned", "written", "read-back", "made", "leaving", "out")  # host/steps.py passes them in a step
_OTHERS = ("reboot", "start", "remove", "make", "other-attach", "other-detach", "other-reconcile")
_CALLS = 26  # an attach makes some 20 calls, a detach 30


@dataclass(frozen=True, slots=True)
class Plot:
    """The kind, and at which of the command's calls (or of a step's points); `number` is for what it is about."""

    kind: str
    at: int
    point: str | None = None
    number: int = 0


calls = st.integers(0, _CALLS)
plots = st.one_of(
    st.none(),
    st.builds(Plot, st.just("kill"), calls),
    st.builds(Plot, st.just("host-program-killed"), st.integers(0, 1), st.sampled_from(_POINTS)),
    st.builds(Plot, st.sampled_from(_OTHERS), calls, st.none(), st.integers(0, MAX_VMS - 1)),
)
