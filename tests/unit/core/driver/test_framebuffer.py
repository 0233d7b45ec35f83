"""What a guest sees of its framebuffer at least, beside what drivers really leave it."""

from __future__ import annotations

import pytest

from vgpumgr.core.driver.framebuffer import guest_at_least_mib


@pytest.mark.parametrize(
    ("board", "size", "maximum", "seen"),
    [
        ("T4", 16384, 1, 15268),
        ("A40", 49152, 1, 46016),
        ("L40", 49152, 1, 47104),
        ("L40", 1024, 32, 1024),
        ("L4", 1024, 24, 896),
    ],
)  # vgpuConfig.xml of R550
def test_a_guest_sees_at_least_what_we_say(board: str, size: int, maximum: int, seen: int) -> None:
    assert size * 0.8 < guest_at_least_mib(size, maximum=maximum, board=board) <= seen


def test_what_is_not_known_of_a_board_makes_it_less() -> None:
    known = guest_at_least_mib(4096, maximum=10, board="A100")
    assert guest_at_least_mib(4096, maximum=10, board=None) < known
    assert guest_at_least_mib(4096, maximum=None, board="A100") < known
    assert guest_at_least_mib(16, maximum=None, board=None) == 0
