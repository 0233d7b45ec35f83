"""The test kernel module's rules of placement and admission, built in a plain program: as the lab's driver and core have them.

Three implementations, each after NVIDIA's source and none after another: all boards, both modes, random sequences.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kernel.cards import hardware, header, kinds
from tests.lab.driver.sequences import SEQUENCES, Began, Created, Removed, events
from vgpumgr.host.protocol.gpu import MDEV_PF, VENDOR_VFIO
from vgpumgr.lab.driver import places
from vgpumgr.lab.driver.boards import board, board_codes, why_no_driver

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import BoardSpec

MODULE = Path(__file__).with_name("module")
# Of every board that a driver of this branch knows.
DRIVER = 595
CODES = tuple(code for code in board_codes() if why_no_driver(board(code, "test"), DRIVER) is None)
_REFUSED = "refused"

# Reads what to do and says what comes of it, a line each.
PROGRAM = r"""
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
typedef unsigned char u8;
typedef unsigned short u16;
#define ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))
#define PCI_DEVFN(slot, function) ((slot) << 3 | (function))
#include "places.h"
#include "cards.h"

int main(void)
{
    static struct nvlab_scene scene;
    unsigned ids[NVLAB_MOST_PLACES], a, b;
    char word[16];

    while (scanf("%15s %u %u", word, &a, &b) == 3) {
        if (!strcmp(word, "begin")) {
            scene = (struct nvlab_scene){ .card = &cards[a], .mixed = b };
        } else if (!strcmp(word, "create")) {
            const struct nvlab_type *type = &scene.card->types[a];
            int place = nvlab_first_place(&scene, type);

            if (!nvlab_left(&scene, type)) {
                puts("refused");
                continue;
            }
            scene.taken[scene.count++] = (struct nvlab_taken){ type, place };
            printf("%d\n", place);
        } else if (!strcmp(word, "remove")) {
            scene.count--;
            memmove(&scene.taken[a], &scene.taken[a + 1], (scene.count - a) * sizeof(scene.taken[0]));
        } else if (!strcmp(word, "ids")) {
            unsigned count = nvlab_places(scene.card, &scene.card->types[a], b, ids);

            printf("%u", nvlab_slots(scene.card, &scene.card->types[a]));
            for (unsigned i = 0; i < count; i++)
                printf(" %u", ids[i]);
            puts("");
        } else {
            return 1;
        }
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules with a card of every board."""
    folder = tmp_path_factory.mktemp("places")
    spec = ["hosts:", "  all:", f"    driver: {DRIVER}", "    boards:"]
    for bus, code in enumerate(CODES):
        framework = VENDOR_VFIO if board(code, "test").vfs else MDEV_PF
        spec.append(f'      - {{board: {code}, pci: "0000:{bus + 16:02x}:00.0", framework: {framework}}}')
    (folder / "all.yml").write_text("\n".join(spec) + "\n", encoding="utf-8")
    (folder / "cards.h").write_text(header(hardware(folder / "all.yml")), encoding="utf-8")
    (folder / "main.c").write_text(PROGRAM, encoding="ascii")
    flags = [
        "-std=gnu11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-const-variable",
        "-O1",
        f"-I{MODULE}",
        f"-I{folder}",
    ]
    command = ["cc", *flags, "-o", str(folder / "places"), str(MODULE / "places.c"), str(folder / "main.c")]
    subprocess.run(command, check=True)
    return folder / "places"


def answers(program: Path, lines: list[str]) -> list[str]:
    done = subprocess.run([program], input="\n".join(lines) + "\n", check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_it_computes_the_labs_ids_for_every_type_of_every_board(program: Path) -> None:
    lines, wanted = [], []
    for number, code in enumerate(CODES):
        spec = board(code, "test")
        lines.append(f"begin {number} 0")
        for mixed in (False, True):
            lines += [f"ids {at} {int(mixed)}" for at in _places(spec)]
            wanted += [_line(spec, kind, mixed=mixed) for kind in range(len(spec.types))]
    assert answers(program, lines) == wanted


def _places(spec: BoardSpec) -> list[int]:
    """For each of a board's types, where the module's table has it, among MIG-backed ones."""
    table = kinds(spec)
    return [table.index(kind) for kind in spec.types]


def _line(spec: BoardSpec, kind: int, *, mixed: bool) -> str:
    ids = places.supported(spec, spec.types[kind], mixed=mixed)
    return " ".join(map(str, (places.slots(spec, spec.types[kind]), *ids)))


def test_the_three_agree_on_random_sequences_over_all_boards_and_both_modes(program: Path) -> None:
    """What core and the lab's driver agree on, or events() fails, is played here again."""
    lines: list[str] = []
    wanted: list[str] = []
    tables = {code: _places(board(code, "test")) for code in CODES}
    table: list[int] = []  # of the board that is played
    is_played = False
    for event in events():
        is_played = event.code in tables if isinstance(event, Began) else is_played
        if not is_played:
            continue
        match event:
            case Began():
                table = tables[event.code]
                lines.append(f"begin {CODES.index(event.code)} {int(event.mixed)}")
            case Created():
                lines.append(f"create {table[event.kind]} 0")
                wanted.append(str(-1 if event.place is None else event.place) if event.taken else _REFUSED)
            case Removed():
                lines.append(f"remove {event.number} 0")
    told = answers(program, lines)
    assert len(told) == len(wanted)
    refused = wanted.count(_REFUSED)
    assert min(len(wanted) - refused, refused, sum(line.startswith("remove") for line in lines)) > SEQUENCES * len(
        CODES
    ) // len(board_codes())
    assert [pair for pair in zip(told, wanted, strict=True) if pair[0] != pair[1]] == []
