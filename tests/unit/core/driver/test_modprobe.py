"""Files of /etc/modprobe.d: what they mean for a GPU, and merging into them without losing a byte of anybody else's."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.core.driver import modprobe
from vgpumgr.core.driver.modprobe import LoadedModule, ModprobeFile
from vgpumgr.names import PciAddress

A, B = PciAddress("0000:41:00.0"), PciAddress("0000:81:00.0")
NVIDIA = "/etc/modprobe.d/nvidia.conf"
PER_DEVICE = modprobe.PER_DEVICE

keys = st.sampled_from(["Foo", "RmNvencPVMRL", "RmPVMRL", "Bar_1"])
spellings = st.sampled_from(["0", "7", "0x11", "0x00020013", "0xFFFFFFFF"])
devices = st.sampled_from(["0000:41:00.0", "41:00.0", "0000:81:00.0", "0000:C1:00.0", "nonsense"])
dwords = st.lists(st.tuples(keys, spellings).map("=".join), max_size=3).map(";".join)
groups = st.lists(st.tuples(devices, dwords).map(lambda pair: f"pci={pair[0]};{pair[1]}".rstrip(";")), max_size=3)
values = st.tuples(groups.map(";".join), st.sampled_from(["", ";"])).map("".join)
quotings = st.sampled_from(["{name}={value}", '{name}="{value}"', '"{name}={value}"'])
parameters = st.one_of(
    st.tuples(quotings, st.sampled_from([PER_DEVICE]), values).map(
        lambda row: row[0].format(name=row[1], value=row[2])
    ),
    st.tuples(quotings, st.sampled_from([modprobe.EVERY_DEVICE]), dwords).map(
        lambda row: row[0].format(name=row[1], value=row[2])
    ),
    st.sampled_from(["NVreg_EnableMSI=1", 'NVreg_RmMsg="a b"', "modeset=0"]),
)
joints = st.sampled_from([" ", "\t", " \\\n", "  "])


@st.composite
def lines(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["options", "options", "options", "comment", "other", "blank"]))
    if kind == "options":
        words = [
            "options",
            draw(st.sampled_from(["nvidia", "nvidia", "nvidia-drm"])),
            *draw(st.lists(parameters, max_size=3)),
        ]
        return "".join(word + draw(joints) for word in words[:-1]) + words[-1]
    if kind == "comment":
        return f"# options nvidia {PER_DEVICE}=pci=0000:41:00.0;RmPVMRL=0x1"
    return "alias char-major-195* nvidia" if kind == "other" else ""


texts = st.tuples(st.lists(lines(), max_size=4).map("\n".join), st.sampled_from(["", "\n"])).map("".join)
files = st.lists(texts, max_size=3).map(
    lambda found: tuple(
        ModprobeFile(path=f"/etc/modprobe.d/{name}.conf", text=text)
        for name, text in zip(("a", "nvidia", "z"), found, strict=False)
    )
)
numbers = st.integers(0, 0xFFFFFFFF)


def merged(before: tuple[ModprobeFile, ...], gpu: PciAddress, value: int) -> tuple[ModprobeFile, ...]:
    edit = modprobe.merge(before, gpu, value)
    known = {file.path: file.text for file in before}
    assert known.get(edit.path) == edit.before
    return tuple(ModprobeFile(path=path, text=one) for path, one in sorted({**known, edit.path: edit.text}.items()))


def number_of(found: tuple[ModprobeFile, ...], gpu: PciAddress) -> int | None:
    return modprobe.number(modprobe.read(found, gpu))


@LAW
@given(files, numbers)
def test_what_was_merged_is_what_the_gpu_will_have(before: tuple[ModprobeFile, ...], value: int) -> None:
    assert number_of(merged(before, A, value), A) == value


@LAW
@given(files, numbers)
def test_another_gpu_has_what_it_had(before: tuple[ModprobeFile, ...], value: int) -> None:
    assert modprobe.read(merged(before, A, value), B) == modprobe.read(before, B)


@LAW
@given(files, numbers, numbers)
def test_merging_again_changes_nothing_more(before: tuple[ModprobeFile, ...], first: int, second: int) -> None:
    """The same value is already there, and another one takes its place alone."""
    once = merged(before, A, first)
    assert merged(once, A, first) == once
    assert merged(merged(once, A, second), A, first) == once


@LAW
@given(files, numbers)
def test_every_byte_of_others_is_kept(before: tuple[ModprobeFile, ...], value: int) -> None:
    """One file changes; without our dword (and the `pci=` it needed) it is what it was, in every place but that one."""
    after = {file.path: file.text for file in merged(before, A, value)}
    old = {file.path: file.text for file in before}
    changed = [path for path in after if after[path] != old.get(path)]
    assert len(changed) <= 1
    for path in changed:
        if path not in old:
            assert path == modprobe.OUR_PATH
            continue
        ours = f"RmPVMRL=0x{value:08x}"
        cut = [after[path][: found.start()] + after[path][found.end() :] for found in _each(ours, after[path])]
        was = [
            old[path][: found.start()] + old[path][found.end() :] for found in _each(r"RmPVMRL=[^;\"\s\\]*", old[path])
        ]
        assert old[path] in cut or set(cut) & set(was)


def _each(ours: str, text: str) -> list[re.Match[str]]:
    """Where our addition may stand, with what may have come with it."""
    return [
        found
        for pattern in (ours, f";{ours}", f"pci={A};{ours}", f";pci={A};{ours}")
        for found in re.finditer(pattern, text)
    ]


@LAW
@given(files, numbers)
def test_no_second_line_ever_sets_the_parameter(before: tuple[ModprobeFile, ...], value: int) -> None:
    def lines_with_it(found: tuple[ModprobeFile, ...]) -> int:
        return len([one for file in found for one in modprobe.places(file, PER_DEVICE)])

    assert lines_with_it(merged(before, A, value)) == max(1, lines_with_it(before))


def conf(text: str, path: str = NVIDIA) -> ModprobeFile:
    return ModprobeFile(path=path, text=text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            f'options nvidia {PER_DEVICE}="pci=0000:41:00.0;Foo=1;RmPVMRL=0x01;Bar=2" NVreg_EnableMSI=1 # no comment\n',
            f'options nvidia {PER_DEVICE}="pci=0000:41:00.0;Foo=1;RmPVMRL=0x00000011;Bar=2" NVreg_EnableMSI=1 # no comment\n',
        ),
        (
            f"options nvidia {PER_DEVICE}=pci=0000:81:00.0;RmPVMRL=0x01\n",
            f"options nvidia {PER_DEVICE}=pci=0000:81:00.0;RmPVMRL=0x01;pci=0000:41:00.0;RmPVMRL=0x00000011\n",
        ),
        (
            f'options nvidia {PER_DEVICE}="pci=41:00.0;Foo=1;pci=0000:81:00.0;Foo=2"\n',
            f'options nvidia {PER_DEVICE}="pci=41:00.0;Foo=1;RmPVMRL=0x00000011;pci=0000:81:00.0;Foo=2"\n',
        ),
        (
            f'options nvidia {PER_DEVICE}="pci=0000:41:00.0;\\\nFoo=1;Rm\\\nPVMRL=1"\n',
            f'options nvidia {PER_DEVICE}="pci=0000:41:00.0;\\\nFoo=1;RmPVMRL=0x00000011"\n',
        ),
    ],
)
def test_the_dword_goes_where_its_gpu_stands(before: str, after: str) -> None:
    assert merged((conf(before),), A, 0x11) == (conf(after),)


def test_where_nothing_sets_the_parameter_a_file_of_our_own_is_made_beside_the_others() -> None:
    other = conf("options nvidia NVreg_EnableMSI=1\n")
    after = merged((other,), A, 0x11)
    assert after[0] == other
    assert after[1].path == "/etc/modprobe.d/vgpumgr.conf"
    assert after[1].text.startswith("# Written by vgpumgr")
    assert after[1].text.endswith(
        '\noptions nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmPVMRL=0x00000011"\n'
    )


def test_our_own_file_gets_its_line_again_below_what_somebody_made_of_it() -> None:
    ours = conf("# options nvidia NVreg_Foo=1", modprobe.OUR_PATH)
    (after,) = merged((ours,), A, 0x11)
    assert after.text == f"{ours.text}\n{modprobe.options_line(A, 0x11)}\n"


def test_of_two_files_that_set_it_the_last_counts_is_edited_and_both_are_named() -> None:
    first = conf(f"options nvidia {PER_DEVICE}=pci=0000:41:00.0;RmPVMRL=0x01\n", "/etc/modprobe.d/a.conf")
    last = conf(f"\noptions nvidia {PER_DEVICE}=pci=0000:81:00.0;Foo=1\n", "/etc/modprobe.d/z.conf")
    assert modprobe.read((last, first), A) is None
    after = merged((last, first), A, 0x11)
    assert after[0] == first
    assert (
        after[1].text == f"\noptions nvidia {PER_DEVICE}=pci=0000:81:00.0;Foo=1;pci=0000:41:00.0;RmPVMRL=0x00000011\n"
    )
    (warning,) = modprobe.warnings((last, first), A)
    assert "/etc/modprobe.d/a.conf:1" in warning
    assert "/etc/modprobe.d/z.conf:2" in warning


def test_a_value_for_every_gpu_counts_where_the_gpu_has_none_and_is_told_of() -> None:
    every = conf('options nvidia NVreg_RegistryDwords="Foo=1;RmPVMRL=0x01"\n')
    found = modprobe.read((every,), A)
    assert found is not None
    assert (found.number, found.per_device, found.path) == (1, False, NVIDIA)
    assert number_of(merged((every,), A, 0), A) == 0
    assert number_of(merged((every,), A, 0), B) == 1
    assert "for every GPU" in modprobe.warnings((every,), A)[0]


def test_what_the_module_was_loaded_with_is_read_alike() -> None:
    module = LoadedModule(registry_dwords="RmPVMRL=1", registry_dwords_per_device="pci=0000:41:00.0;RmPVMRL=0x11")
    assert [modprobe.number(modprobe.read_loaded(module, gpu)) for gpu in (A, B)] == [0x11, 1]
    empty = LoadedModule(registry_dwords="", registry_dwords_per_device="")
    assert modprobe.read_loaded(empty, A) is None


def test_a_value_that_is_no_number_is_found_and_not_understood() -> None:
    found = modprobe.read((conf(f"options nvidia {PER_DEVICE}=pci=0000:41:00.0;RmPVMRL=on\n"),), A)
    assert found is not None
    assert (found.text, found.number) == ("on", None)
