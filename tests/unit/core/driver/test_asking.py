"""What is asked by options, of whichever interface, as a wish and its conditions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.driver import asking, plugin_params, profiles
from vgpumgr.core.driver.asking import Conditions
from vgpumgr.errors import BadName, UsageError, VgpumgrError


def read(**given: str | bool | None) -> tuple[profiles.Wish, Conditions]:
    return asking.read(given, about="vm01", spelt=lambda key: f"--{key.replace('_', '-')}")


@pytest.mark.parametrize(
    ("given", "wish"),
    [
        ({"profile": "4Q"}, profiles.ByProfile(profile=profiles.parse_profile("4Q"))),
        ({"mig_profile": "2g.10gb"}, profiles.ByMigProfile(mig_profile="2g.10gb")),
        ({"gpu_memory": "1.5G", "series": "Q"}, profiles.ByMemory(mib=1536, series="Q")),
        ({"gpu": "0.250", "usable": True}, profiles.ByShare(gpu="0.25", usable=True)),
        ({"fgpu": "2", "usable": False, "profile": None}, profiles.ByFgpu(fgpu="2")),
    ],
)
def test_each_way_to_ask_is_a_wish(given: dict[str, str | bool | None], wish: profiles.Wish) -> None:
    assert read(**given) == (wish, asking.NO_CONDITIONS)


def test_conditions_stand_beside_the_wish() -> None:
    wish, conditions = read(gpu="0.2", max_waste="10%", compute="fixed-share", only="time-sliced")
    assert conditions == Conditions(max_waste_pct=10, compute="fixed-share", only="time-sliced")
    assert asking.describe(wish, conditions) == "--gpu 0.2 --max-waste 10 --compute fixed-share --only time-sliced"


@given(st.lists(st.tuples(st.sampled_from(plugin_params.NAMES), st.sampled_from("01")), unique_by=lambda pair: pair[0]))
def test_plugin_parameters_are_the_same_in_any_order_and_in_a_claim(pairs: list[tuple[str, str]]) -> None:
    written = [f" {name} = {value}" for name, value in pairs]
    if not written:
        return
    wish, conditions = read(profile="4Q", param=",".join(written))
    assert read(profile="4Q", param=",".join(reversed(written))) == (wish, conditions)
    assert asking.split(asking.attributes(conditions)) == (conditions, {})
    assert conditions.param is not None
    assert sorted(conditions.param.split(",")) == sorted(text.replace(" ", "") for text in written)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, UsageError, "vm01: say which vGPU is wanted"),
        ({"profile": "4Q", "gpu": "1"}, UsageError, "vm01: --profile and --gpu cannot be combined"),
        ({"profile": "4Q", "max_waste": "1"}, UsageError, "--max-waste cannot be combined with --profile"),
        ({"mig_profile": "2g.10gb", "usable": True}, UsageError, "--usable cannot be combined with --mig-profile"),
        ({"gpu": "1", "only": "mig", "prefer": "mig"}, UsageError, "--only and --prefer cannot be combined"),
        ({"gpu": "1", "compute": "all"}, UsageError, "--compute is 'all'"),
        ({"gpu": "1", "series": "X"}, UsageError, "--series is 'X'"),
        ({"gpu_memory": "4T"}, BadName, "--gpu-memory is not an amount of memory: '4T'"),
        ({"gpu": "2"}, BadName, "--gpu must be a number above 0 and at most 1, found '2'"),
        ({"profile": "4X"}, BadName, "--profile: not a profile: '4X'"),
        ({"mig_profile": "2g"}, BadName, "--mig-profile is not a MIG profile: '2g'"),
        ({"gpu": "1", "param": "uvm=1"}, BadName, "--param: 'uvm' is no plugin parameter"),
        ({"gpu": "1", "param": "enable_uvm"}, BadName, "--param: enable_uvm is '', which is neither 0 nor 1"),
        ({"gpu": "1", "param": "enable_uvm=1,enable_uvm=0"}, BadName, "--param: enable_uvm is both 0 and 1"),
        (
            {"gpu": "1", "param": "vgpu-placement-id=3"},
            BadName,
            "--param: vgpu-placement-id is not asked for: vgpumgr places the vGPU",
        ),
        ({"gpu": "1", "max_waste": "101"}, BadName, "--max-waste is '101', not a percentage from 0 to 100"),
    ],
)
def test_what_cannot_be_asked_is_named(
    given: dict[str, str | bool | None], error: type[VgpumgrError], message: str
) -> None:
    with pytest.raises(error) as refused:
        read(**given)
    assert refused.value.message == message


def test_a_condition_of_a_later_version_stays_with_the_wish() -> None:
    """So the claim is left as it is."""
    conditions, rest = asking.split(
        {"gpu": "0.5", "max_waste": "20", "compute": "by-the-hour", "rack": "7", "param": "x=2"}
    )
    assert conditions == Conditions(max_waste_pct=20)
    assert isinstance(profiles.from_attributes(rest), profiles.ByOther)
