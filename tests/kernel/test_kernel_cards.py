"""The tables that the kernel module is built with: read back by a C program, they are what a lab host shows of the same cards."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kernel.cards import HARDWARE, hardware, header, kinds, mig_of
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.nvml.state import nvml_text
from vgpumgr.lab.sysfs.tree import NVML_PATH, PROC_DRIVER_PATH, Tree
from vgpumgr.lab.sysfs.vgpu_nodes import describe

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import Gpu, TypeSpec

MODULE = HARDWARE.with_name("module")
FRAMEWORKS = (MDEV_PF, MDEV_VF, VENDOR_VFIO)  # as card.h numbers them

# What the kernel's headers have, the module's own, and a program that prints every table.
PRINT = r"""
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
typedef unsigned char u8;
typedef unsigned short u16;
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))
#define PCI_DEVFN(slot, function) ((slot) << 3 | (function))
#include "card.h"
#include "cards.h"

int main(void)
{
    printf("%s\n%s", NVLAB_DRIVER_LINE, NVLAB_PROC_VERSION);
    for (unsigned i = 0; i < ARRAY_SIZE(cards); i++) {
        const struct nvlab_card *c = &cards[i];
        printf("card %s %02x:%02x.%x %d %d %u %04x %d\n", c->pci, c->bus, c->devfn >> 3, c->devfn & 7, c->node, c->framework,
               c->vfs, c->device, c->placements);
        printf("first VF %02x.%x\n", (c->devfn + c->first_vf) >> 3, (c->devfn + c->first_vf) & 7);
        for (unsigned at = 0; at < NVLAB_CONFIG_BYTES; at++)
            printf("%02x", c->config[at]);
        printf("\n%s%s", c->information, c->registry);
        printf("gpu index=%u %s used_mib=0 %s%s%s\n", i, c->nvml_before_used, c->nvml_after_used,
               c->nr_profiles ? " mig=0 mig_pending=0" : "", c->vfs ? " hetero=0" : "");
        for (unsigned k = 0; k < c->nr_profiles; k++) {
            const struct nvlab_profile *p = &c->profiles[k];
            printf("profile gpu=%u %s left=%u %s\n", i, p->nvml_before_left, p->max < p->nr_starts ? p->max : p->nr_starts,
                   p->nvml_after_left);
            printf("profile %u of %u has %u slices of size %u at", p->id, i, p->slices, p->size);
            for (unsigned at = 0; at < p->nr_starts; at++)
                printf(" %u", p->starts[at]);
            printf("\n");
        }
        printf("caps gpu=%u %s\n", i, c->nvml_caps);
        for (unsigned engine = 0; engine < 32; engine++)
            if (c->engines >> engine & 1)
                printf("scheduler gpu=%u engine=%u policy=1 arr=0 factor=0 slice=0\n", i, engine);
        for (unsigned k = 0; k < c->nr_types; k++) {
            const struct nvlab_type *t = &c->types[k];
            printf("type gpu=%u creatable=%d %s\n", i, t->profile < 0, t->nvml);
            printf("%u %s %s|%s|%u %u\n", t->id, t->id_text, t->name, t->description, t->fb_mib, t->max);
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a program says that was built with the tables."""
    tmp_path = tmp_path_factory.mktemp("cards")
    (tmp_path / "cards.h").write_text(header(hardware()), encoding="utf-8")
    (tmp_path / "print.c").write_text(PRINT, encoding="ascii")
    program = tmp_path / "print"
    subprocess.run(
        ["cc", "-std=gnu11", "-Wall", "-Werror", f"-I{MODULE}", f"-I{tmp_path}", "-o", program, tmp_path / "print.c"],
        check=True,
    )
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture(scope="module")
def tree() -> Tree:
    """A simulated host of the same spec, as it is after its boot."""
    driver = Driver(hardware())
    return Tree(driver, lambda: nvml_text(driver))


def text(tree: Tree, path: str) -> str:
    return tree.read(path).decode()


def test_each_card_is_where_a_lab_host_has_it_and_is_the_same_one(printed: list[str], tree: Tree) -> None:
    gpus = hardware().gpus
    assert [gpu.framework for gpu in gpus] == [MDEV_PF, MDEV_VF, VENDOR_VFIO, VENDOR_VFIO]
    for gpu in gpus:
        folder = tree.node(f"/bus/pci/devices/{gpu.pci}").target.removeprefix("../../..")
        at = printed.index(
            f"card {gpu.pci} {gpu.pci[5:]} {text(tree, folder + '/numa_node').strip()} {FRAMEWORKS.index(gpu.framework)} "
            f"{gpu.board.vfs} {text(tree, folder + '/device').strip()[2:]} {int(gpu.board.placements)}"
        )
        assert printed[at + 1] == f"first VF {vf_pci(gpu, 0)[8:]}"
        assert bytes.fromhex(printed[at + 2]) == tree.read(f"{folder}/config")
        proc = f"{PROC_DRIVER_PATH}/nvidia/gpus/{gpu.pci}"
        shown = (text(tree, f"{proc}/information") + text(tree, f"{proc}/registry")).splitlines()
        assert printed[at + 3 : at + 3 + len(shown)] == shown
    assert sum(line.startswith("card ") for line in printed) == len(gpus)


def test_each_type_says_what_a_lab_host_says_of_it_in_sysfs(printed: list[str], tree: Tree) -> None:
    told = 0
    for gpu in hardware().gpus:
        for kind in kinds(gpu.board):
            assert (
                f"{kind.id} {kind.id} {kind.name}|{said(tree, gpu, kind)}|{kind.framebuffer_mib} {kind.max_instances}"
                in printed
            )
            told += 1
    assert sum("|" in line for line in printed) == told


def said(tree: Tree, gpu: Gpu, kind: TypeSpec) -> str:
    """The description that the lab shows; on vendor-vfio there is none in /sys."""
    if gpu.framework == VENDOR_VFIO:
        return describe(kind)
    parent = gpu.pci if gpu.framework == MDEV_PF else vf_pci(gpu, 0)
    folder = tree.node(f"/bus/pci/devices/{parent}").target.removeprefix("../../..")
    assert text(tree, f"{folder}/mdev_supported_types/nvidia-{kind.id}/name") == f"{kind.name}\n"
    return text(tree, f"{folder}/mdev_supported_types/nvidia-{kind.id}/description").strip()


def test_nvml_is_told_the_same_lines(printed: list[str], tree: Tree) -> None:
    words = ("gpu ", "caps ", "scheduler ", "type ", "profile gpu=")
    told = [line for line in text(tree, NVML_PATH).splitlines() if line.startswith(words)]
    assert sorted(line for line in printed if line.startswith(words)) == sorted(told)
    driver = text(tree, NVML_PATH).splitlines()[1]
    assert driver.startswith(printed[0] + " newest=")
    assert printed[1:3] == text(tree, f"{PROC_DRIVER_PATH}/nvidia/version").splitlines()


def test_each_profile_has_the_places_that_a_lab_host_knows(printed: list[str]) -> None:
    told = 0
    for number, gpu in enumerate(hardware().gpus):
        mig = mig_of(gpu.board)
        for one in mig.profiles if mig else ():
            starts = " ".join(map(str, one.starts))
            assert f"profile {one.id} of {number} has {one.slices} slices of size {one.size} at {starts}" in printed
            told += 1
    assert told == sum(" slices of size " in line for line in printed) > 0
