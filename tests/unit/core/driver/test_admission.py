"""The equal-size rule: one size, of whatever series, at most the type's maximum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.driver import admission
from vgpumgr.core.driver.admission import Refusal

sizes = st.sampled_from([1024, 2048, 4096, 8192])


@given(size=sizes, maximum=st.integers(1, 32), count=st.integers(0, 40))
def test_beside_its_own_size_a_type_is_admitted_up_to_its_maximum(size: int, maximum: int, count: int) -> None:
    expected = None if count < maximum else Refusal.FULL
    assert admission.refusal(size, maximum, [size] * count, count) is expected
    assert admission.refusal(size, None, [size] * count, count) is None


@given(size=sizes, there=st.lists(sizes | st.none(), min_size=1))
def test_another_size_or_one_that_is_not_known_refuses_it_however_empty_the_gpu_is(
    size: int, there: list[int | None]
) -> None:
    expected = None if set(there) == {size} else Refusal.OTHER_SIZE
    assert admission.refusal(size, 1000, there, len(there)) is expected
    assert admission.refusal(None, 1000, there, len(there)) is Refusal.OTHER_SIZE


@given(offered=st.integers(0, 40), maximum=st.integers(0, 40), there=st.integers(0, 40))
def test_what_the_functions_offer_together_is_bounded_by_what_the_card_holds(
    offered: int, maximum: int, there: int
) -> None:
    left = admission.left(offered, maximum, there)
    assert 0 <= left <= offered
    assert left + there <= max(maximum, there)
    assert admission.left(offered, None, there) == offered
