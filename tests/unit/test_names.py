"""Names: each parser gives one canonical form, which it reads back unchanged, or says BadName."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr import names, resources
from vgpumgr.core.driver import catalogue, profiles
from vgpumgr.errors import BadName
from vgpumgr.names import Slot, VmUuid

if TYPE_CHECKING:
    import uuid as uuid_module
    from collections.abc import Callable

CATALOGUE = catalogue.parse(resources.catalogue_text())

DOMAIN = st.one_of(st.just(0), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF))


@st.composite
def pci(draw: st.DrawFn) -> str:
    bus, device, function = draw(st.integers(0, 255)), draw(st.integers(0, 31)), draw(st.integers(0, 7))
    rest = f"{bus:02x}:{device:02x}.{function}"
    domain = draw(DOMAIN)
    forms = [
        f"{domain:08x}:{rest}",
        *([f"{domain:04x}:{rest}"] if domain <= 0xFFFF else []),
        *([rest] if not domain else []),
    ]
    text = draw(st.sampled_from(forms))
    return draw(st.sampled_from([text, text.upper(), f" {text}\n"]))


@LAW
@given(pci())
def test_a_pci_address_has_one_canonical_form_that_reads_back(text: str) -> None:
    once = names.parse_pci_address(text)
    assert names.parse_pci_address(once) == once
    assert int(once.partition(":")[0], 16) == (int(text.partition(":")[0], 16) if text.count(":") == 2 else 0)
    assert len(once.partition(":")[0]) >= 4


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("41:00.0", "0000:41:00.0"),
        ("00000000:41:00.0", "0000:41:00.0"),
        ("0001:C1:1F.7", "0001:c1:1f.7"),
        ("00010000:e1:00.4", "10000:e1:00.4"),
        ("10000:e1:00.4", "10000:e1:00.4"),
    ],
)
def test_a_pci_address_is_written_as_sysfs_writes_it(text: str, canonical: str) -> None:
    assert names.parse_pci_address(text) == canonical


@LAW
@given(st.uuids())
def test_a_uuid_has_one_canonical_form_that_reads_back(value: uuid_module.UUID) -> None:
    for text in (str(value), str(value).upper(), value.hex, "{" + str(value) + "}"):
        assert names.parse_uuid(text) == str(value)
    for text in (f"gpu-{value}", f"GPU-{str(value).upper()}", f" GPU-{value} "):
        assert names.parse_gpu_uuid(text) == names.parse_gpu_uuid(names.parse_gpu_uuid(text)) == f"GPU-{value}"


@LAW
@given(st.from_regex(r"[A-Za-z0-9_-]{1,16}", fullmatch=True))
def test_a_slot_is_kept_as_it_is_written(text: str) -> None:
    assert names.parse_slot(text) == text


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (names.parse_pci_address, "41:00"),
        (names.parse_pci_address, "0000:41:20.0"),
        (names.parse_pci_address, "0000:41:00.8"),
        (names.parse_pci_address, "000000000:41:00.0"),
        (names.parse_pci_address, "0000:41:00.\u0663"),
        (names.parse_gpu_uuid, "GPU-8a6f"),
        (names.parse_uuid, "6a1f"),
        (names.parse_uuid, ""),
        (names.parse_slot, ""),
        (names.parse_slot, "vgpu 0"),
        (names.parse_slot, "vgpu0\n"),
        (names.parse_slot, "a" * 17),
        (names.parse_slot, "vgpü0"),
        (names.parse_vm_name, ""),
        (names.parse_vm_name, "a/b"),
        (names.parse_vm_name, "a\nb"),
        (names.parse_vm_name, "a\x7f"),
        (names.parse_host_name, ""),
        (names.parse_host_name, "-kvm01"),
        (names.parse_host_name, "kvm 01"),
        (profiles.parse_type_name, ""),
    ],
)
def test_what_is_no_name_of_its_kind_is_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(BadName) as caught:
        parse(text)
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (names.parse_vm_name, ["vm01", "Windows 11 (CAD)", "größe", "-", "a.b"]),  # whatever libvirt accepts
        (names.parse_host_name, ["kvm01", "kvm01.example.net", "10.0.0.1", "a"]),
    ],
)
def test_a_name_is_kept_as_it_is_written(parse: Callable[[str], str], texts: list[str]) -> None:
    assert [parse(text) for text in texts] == texts


def test_the_mdev_uuid_is_computed_from_vm_slot_and_generation_alone() -> None:
    vm = VmUuid("6a1f0000-0000-4000-8000-000000000001")
    one = names.compute_mdev_uuid(vm, Slot("vgpu0"), 1)
    assert one == "aac8cb7c-765b-5a13-9d28-96543b141b9e"  # golden: a controller of any version must arrive at it
    assert len({one, names.compute_mdev_uuid(vm, Slot("vgpu0"), 2), names.compute_mdev_uuid(vm, Slot("vgpu1"), 1)}) == 3


def test_slots_are_ordered_by_their_number() -> None:
    slots = [Slot(text) for text in ("vgpu10", "vgpu2", "b", "vgpu02", "vgpu", "7")]
    assert sorted(slots, key=names.slot_order) == ["7", "b", "vgpu", "vgpu02", "vgpu2", "vgpu10"]


@pytest.mark.parametrize(
    ("wrong", "valid", "near"),
    [
        ("a40-4q", ["A40-4Q", "A40-8C", "L40S-4Q"], "A40-4Q"),  # another case
        ("4q", ["4Q", "4C"], "4Q"),
        ("kvm1", ["kvm01", "kvm10"], "kvm01"),  # zeros in front
        ("kvm_01", ["kvm-01"], "kvm-01"),  # another separator
        ("kvm01", ["kvm01.example.net", "kvm02.example.net"], "kvm01.example.net"),
        ("kmv01", ["kvm01", "kvm02"], "kvm01"),  # two letters swapped
        ("wbserver01", ["webserver01"], "webserver01"),
        ("profil", ["gpu", "profile"], "profile"),
        ("slice", ["time_slice", "policy"], "time_slice"),
        ("--memory", ["--gpu-memory", "--gpu"], "--gpu-memory"),
        ("vgpumgr_vm", ["vgpumgr_vms"], "vgpumgr_vms"),
        ("vm01", ["kvm01"], None),  # a VM is no host
        ("vm1", ["vm31"], None),  # another number is another VM
        ("vm10", ["vm01"], None),
        ("kvm9", ["kvm02"], None),
        ("A100-1-5C", ["A100-5C", "A100-15C"], None),
        ("1-5", ["15"], None),
        ("idle", ["quiet"], None),
        ("gpu", ["output"], None),
        ("gpu_memory", ["gpu_id"], None),
        ("explain", ["plan"], None),
        ("db", ["dx"], None),  # too short for a slip
        ("zzz", ["A40-4Q"], None),
        ("4Q", [], None),
        ("", ["a"], None),
        ("٣", ["3"], None),  # an Arabic digit is no number here
        ("9" * 5000, ["9"], None),
    ],
)
def test_a_near_miss_is_near(wrong: str, valid: list[str], near: str | None) -> None:
    assert names.nearest(wrong, valid) == near


@pytest.mark.parametrize(("wrong", "near"), [("rtx6000-4q", "RTX6000-4Q"), ("RTXB6000-4Q", None), ("A41-4Q", None)])
def test_a_type_is_never_taken_for_another_product(wrong: str, near: str | None) -> None:
    assert names.nearest(wrong, ["A40-4Q", "RTX6000-4Q", "RTXA6000-4Q"], typos=False) == near


@given(st.text(max_size=12), st.text(max_size=12))
def test_nearness_has_no_direction_and_no_name_is_far_from_itself(one: str, other: str) -> None:
    assert names.nearest(one, [one]) == one
    slips = names._slips(*names._pieces(one), *names._pieces(other))
    assert slips == names._slips(*names._pieces(other), *names._pieces(one))


def test_every_catalogue_name_is_a_profile_in_all_three_spellings() -> None:
    for row in CATALOGUE.types:
        for text in (row.name.text, f"NVIDIA {row.name.text}", f"GRID  {row.name.text}"):
            found = profiles.parse_profile(text)
            assert (found.board, found.short) == (row.name.board, row.name.short)
            assert found.text == " ".join(text.split())
            assert profiles.parse_profile(found.text) == found
            assert CATALOGUE.names_board_type(found)
        short = profiles.parse_profile(row.name.short)
        assert (short.board, short.short) == (None, row.name.short)
        assert not CATALOGUE.names_board_type(short)


def test_every_catalogue_name_is_rendered_as_it_was_parsed() -> None:
    for row in CATALOGUE.types:
        assert profiles.parse_type_name(row.name.text) == row.name
        found = CATALOGUE.find(row.name.text)
        assert found is not None
        assert found.name == row.name  # both RTX PRO boards have the code DC, so the row may be the other's


def test_the_catalogue_keeps_every_row_of_its_file() -> None:
    """No name in the shipped file is outside the grammar."""
    assert len(CATALOGUE.types) == len(resources.catalogue_text().splitlines()) - 1
    assert CATALOGUE.find("A40-5Q") is None


def test_the_two_boards_of_code_dc_are_told_apart_by_the_names_we_give_them() -> None:
    """The driver calls both DC; a person writes RTXPRO6000-48C or RTXPRO4500-32C."""
    assert profiles.board_code("NVIDIA RTX Pro 6000 Blackwell DC-48C") == "RTXPRO6000"
    assert profiles.board_code("NVIDIA RTX PRO 4500 Blackwell DC-32C") == "RTXPRO4500"
    assert profiles.board_code("NVIDIA A40-4Q") == "A40"
    assert CATALOGUE.names_board_type(profiles.parse_profile("RTXPRO6000-48C"))
    assert CATALOGUE.names_board_type(profiles.parse_profile("RTXPRO4500-32C"))
    assert not CATALOGUE.names_board_type(profiles.parse_profile("RTXPRO4500-48C"))


def test_a_catalogue_row_outside_the_grammar_is_left_out() -> None:
    text = "gpu,pci_device_id,type_name,fb_mb,max_per_gpu,mig_gpu_instance_profile\nNVIDIA A40,2235,A40-4Q,,,\nNVIDIA A40,2235,nonsense,1,1,\n"
    found = catalogue.parse(text)
    assert [(row.name.text, row.framebuffer_mib, row.max_per_gpu) for row in found.types] == [("A40-4Q", None, None)]


@pytest.mark.parametrize(
    ("text", "like"), [("4q", "4Q"), ("NVIDIA 4Q", "4Q"), ("A40-4q", "A40-4Q"), ("RTX6000-Ada-4q", "RTX6000-Ada-4Q")]
)
def test_a_profile_in_the_wrong_case_is_told_the_right_one(text: str, like: str) -> None:
    with pytest.raises(BadName, match="not a profile") as caught:
        profiles.parse_profile(text)
    assert caught.value.hint == f"did you mean {like}?"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "4",
        "Q",
        "A40",
        "A40-4z",
        "4Z",
        "NVIDIA",
        "NVIDIA \x1b[31m",
        "NVIDIA a;b",
        "4Q NVIDIA",
        "A40-4Q-",
        "\uff14Q",
        "A40-\u0664Q",
    ],
)
def test_what_is_no_profile_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(BadName, match="not a profile") as caught:
        profiles.parse_profile(text)
    assert "4Q, A40-4Q or 'NVIDIA A40-4Q'" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "board", "short"),
    [
        ("NVIDIA A40-8", "A40", "8"),
        ("A40-4Z", "A40", "4Z"),
        ("A40-4QNEW", "A40", "4QNEW"),
        ("NVIDIA RTX Pro 6000 Blackwell DC-1-12", "RTXPRO6000", "1-12"),
        ("NVIDIA GeForce RTX 3050", None, "3050"),
    ],
)
def test_a_name_without_a_series_that_we_know_is_asked_for_with_its_board_or_in_full(
    text: str, board: str | None, short: str
) -> None:
    asked = profiles.parse_profile(text)
    assert (asked.board, asked.short, asked.text) == (board, short, text)
    assert profiles.name_of(text).short == short
    assert profiles.from_attributes({"profile": text}) == profiles.ByProfile(profile=asked)


@pytest.mark.parametrize(
    ("text", "size"), [("A40-0Q", 512), ("A40-4Q", 4096), ("NVIDIA A100-1-5CME", 5120), ("T4-1B4", 1024)]
)
def test_the_nominal_size_is_what_the_name_says(text: str, size: int) -> None:
    assert profiles.parse_type_name(text).nominal_mib == size


@pytest.mark.parametrize(
    ("wish", "text"),
    [
        (profiles.ByProfile(profile=profiles.parse_profile("NVIDIA  A40-4Q")), "--profile NVIDIA A40-4Q"),
        (profiles.ByMigProfile(mig_profile="2g.10gb"), "--mig-profile 2g.10gb"),
        (profiles.ByMemory(mib=4096), "--gpu-memory 4G"),
        (profiles.ByMemory(mib=4608, series="Q", usable=True), "--gpu-memory 4608M --series Q --usable"),
        (profiles.ByShare(gpu="0.25", series="C"), "--gpu 0.25"),
        (profiles.ByFgpu(fgpu="0.5"), "--fgpu 0.5"),
        (profiles.ByOther(asked=(("gpu_hours", "3"),)), "--gpu-hours 3"),
    ],
)
def test_a_wish_is_described_as_the_option_that_asks_it(wish: profiles.Wish, text: str) -> None:
    assert profiles.describe(wish) == text


def test_two_spellings_of_one_profile_or_amount_are_one_wish() -> None:
    one, other, short = (
        profiles.ByProfile(profile=profiles.parse_profile(text)) for text in ("A40-4Q", "NVIDIA A40-4Q", "4Q")
    )
    assert profiles.same_wish(one, other)
    assert not profiles.same_wish(one, short)
    assert not profiles.same_wish(one, profiles.ByShare(gpu="0.5"))
    amount, same = (profiles.ByMemory(mib=profiles.parse_memory(text)) for text in ("4G", "4096M"))
    assert profiles.same_wish(amount, same)
    assert profiles.same_wish(amount, replace(amount, series="C"))
    assert not profiles.same_wish(amount, replace(amount, series="Q"))
    assert not profiles.same_wish(amount, replace(amount, usable=True))
    assert profiles.parse_share("0.50") == profiles.parse_share(".5") == "0.5"


@pytest.mark.parametrize(
    ("parse", "said", "texts"),
    [
        (profiles.parse_memory, "not an amount of memory", ["4", "4T", "0G", "-4G", "4 G", "4g", "", "0.0001M", "4GB"]),
        (
            partial(profiles.parse_share, limit=1),
            "above 0 and at most 1",
            ["0", "1.5", "-1", "half", "nan", "inf", "1e-1", "", ".", "0.3333333", "٣"],
        ),
    ],
)
def test_what_is_no_amount(parse: Callable[[str], object], said: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(BadName, match=said):
            parse(text)


@pytest.mark.parametrize(
    "ordered",
    [
        ("1A", "2A", "10C", "12A"),
        ("A40-2Q", "A40-4Q", "A40-12Q", "A100-1-5C", "A100-2-10C"),
        ("kvm01", "kvm1", "kvm2", "kvm10", "kvm10b"),
        ("--gpu 0.25", "--gpu 0.5", "--gpu 1"),
        ("0000:0a:00.0", "0000:10:00.0", "0000:1a:00.0", "0000:9b:00.0"),
        ("", "a", "a" + "9" * 5000, "a1" + "0" * 5000),
    ],
)
def test_people_count_the_numbers_in_names(ordered: tuple[str, ...]) -> None:
    """Decimals are no two numbers, and a PCI address is hexadecimal."""
    spelt = sorted(ordered, key=str.lower)
    assert sorted(spelt, key=names.natural_order) == sorted(ordered, key=ordered.index)
