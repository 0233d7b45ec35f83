"""What the host program reads from sysfs, /proc and command lines."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.host.facts.facts import parse_driver_banner
from vgpumgr.host.facts.mdev import parse_description, parse_placement, parse_type_directory
from vgpumgr.host.facts.pci import parse_information
from vgpumgr.host.facts.qemu import parse_command_line
from vgpumgr.host.facts.vendor import parse_creatable

words = st.text(string.ascii_letters, min_size=1, max_size=8)
names = st.builds(
    lambda middle, size, series: f"NVIDIA {' '.join(middle)}-{size}{series}",
    st.lists(st.one_of(words, st.just("6000")), min_size=1, max_size=4),
    st.integers(1, 141),
    st.sampled_from("ABCQ"),
)
types = st.dictionaries(st.integers(1, 99999), names, max_size=8)
pads = st.text(" \t", min_size=1, max_size=5)


@given(types, st.booleans(), st.booleans(), pads, pads)
def test_creatable_types_are_read_in_every_spelling_that_was_seen(
    types: dict[int, str], header: bool, reverse: bool, before: str, after: str
) -> None:
    """With or without a header, id first or last, a colon or none, any padding."""
    rows = [
        f"{name}{before}{number}" if reverse else f"{number}{before}:{after}{name}" for number, name in types.items()
    ]
    text = "\n".join([*(["ID    : vGPU Name"] if header else []), *rows]) + "\n"
    assert parse_creatable(text) == types


@given(types)
def test_a_row_without_a_colon_is_read_too(types: dict[int, str]) -> None:
    assert parse_creatable("".join(f"{number} {name}\n" for number, name in types.items())) == types


@given(st.text())
def test_no_text_breaks_a_parser(text: str) -> None:
    parse_creatable(text)
    parse_description(text)
    parse_placement(text)
    parse_type_directory(text)
    parse_information(text)
    parse_driver_banner(text)
    parse_command_line(text.split("\0"))


def test_a_full_card_lists_its_header_alone() -> None:
    assert parse_creatable("ID    : vGPU Name\n") == {}


def test_the_description_of_an_a2_is_read() -> None:
    text = "num_heads=4, frl_config=45, framebuffer=1024M, max_resolution=5120x2880, max_instance=16"
    assert parse_description(text) == (1024, 16)


def test_a_description_without_figures_gives_none_not_zero() -> None:
    assert parse_description("num_heads=4") == (None, None)


def test_placements_that_do_not_apply_are_none() -> None:
    assert parse_placement("Not Applicable") is None
    assert parse_placement("12") == 12


def test_another_vendors_types_are_not_ours() -> None:
    assert parse_type_directory("i915-GVTg_V5_4") is None
    assert parse_type_directory("nvidia-558") == 558


def test_the_gpus_uuid_is_in_lower_case_and_the_question_marks_of_a_sick_one_are_none() -> None:
    good = "Model: \t\t NVIDIA A40\nGPU UUID: \t GPU-AAAAAAAA-0000-4000-8000-00000000000A\n"
    assert parse_information(good) == ("GPU-aaaaaaaa-0000-4000-8000-00000000000a", "NVIDIA A40")
    assert parse_information("GPU UUID: \t GPU-????????-????-????-????-????????????\n").uuid is None


def test_the_driver_version_is_read_from_its_banner() -> None:
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.10  Fri Mar 1\nGCC version:  gcc 12.2.0"
    assert parse_driver_banner(text) == "570.133.10"


vm_names = st.text(st.characters(exclude_characters="\0/", exclude_categories=("Cs", "Cc")), min_size=1).filter(
    lambda name: name.strip() != ""
)


@given(vm_names)
def test_any_vm_name_comes_back_from_a_libvirt_command_line(name: str) -> None:
    """Libvirt doubles a comma in the name."""
    escaped = name.replace(",", ",,")
    vm = parse_command_line(["qemu", "-name", f"guest={escaped},debug-threads=on", "-uuid", "6A1F-X"])
    assert vm == (name, "6a1f-x")


def test_a_name_without_guest_is_read_and_no_name_is_none() -> None:
    assert parse_command_line(["qemu", "-name", "vm01,process=x"]).name == "vm01"
    assert parse_command_line(["cat"]) == (None, None)
    assert parse_command_line(["qemu", "-name"]) == (None, None)
