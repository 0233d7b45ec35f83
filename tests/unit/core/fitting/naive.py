"""What fits on empty GPUs, by trying everything: written from NVIDIA's rules alone, without any search of core's.

The tables of placement ids and starts are core's (tests of their own hold them); which sets of vGPUs a GPU holds, and how
they are spread over several, is found here by going through all ways, one vGPU after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

# Of the A40, of a board with four sizes less, and of the A100: (length, where it may begin), or how many of a size.
EQUAL = {"A40": {"4Q": 12, "8Q": 6, "12Q": 4, "16Q": 3, "24Q": 2, "48Q": 1}, "A100": {"10C": 4, "20C": 2, "40C": 1}}
MIXED = {
    "A40": {
        "4Q": (4, (0, 8, 12, 20, 24, 32, 36, 44)),
        "8Q": (8, (0, 16, 24, 40)),
        "12Q": (12, (0, 12, 24, 36)),
        "16Q": (16, (0, 32)),
        "24Q": (24, (0, 24)),
        "48Q": (48, (0,)),
    },
    "A100": {"10C": (10, (0, 10, 20, 30)), "20C": (20, (0, 20)), "40C": (40, (0,))},
}
MIG = {  # with how many of them at most
    "A40": {},
    "A100": {
        "1g.5gb": (1, (0, 1, 2, 3, 4, 5, 6), 7),
        "1g.5gb+me": (1, (0, 1, 2, 3, 4, 5, 6), 1),
        "2g.10gb": (2, (0, 2, 4), 3),
        "3g.20gb": (4, (0, 4), 2),
        "4g.20gb": (4, (0,), 1),
    },
}
SIZES = {"1g.5gb": 5, "1g.5gb+me": 5, "2g.10gb": 10, "3g.20gb": 20, "4g.20gb": 20}


@dataclass(frozen=True)
class Gpu:
    board: str
    mode: str | None


def size(name: str) -> int:
    """In GiB."""
    return SIZES.get(name) or int(name[:-1])


def best(gpus: list[Gpu], wanted: list[str]) -> tuple[int, int]:
    """The most vGPUs that fit, and the most GiB of as many: every subset of them on every GPU in every mode."""
    found = (0, 0)
    for chosen in range(1 << len(wanted)):
        here = [name for at, name in enumerate(wanted) if chosen >> at & 1]
        worth = (len(here), sum(map(size, here)))
        if worth > found and spread(gpus, sorted(here)):
            found = worth
    return found


def spread(gpus: list[Gpu], names: list[str]) -> bool:
    """Whether all of these lie on the GPUs: any part of them on the first, the rest on the others."""
    if not gpus:
        return not names
    tried = set()
    for chosen in range(1 << len(names)):
        here = tuple(name for at, name in enumerate(names) if chosen >> at & 1)
        if here in tried:
            continue
        tried.add(here)
        rest = [name for at, name in enumerate(names) if not chosen >> at & 1]
        if holds(gpus[0], here) and spread(gpus[1:], rest):
            return True
    return False


def holds(gpu: Gpu, names: tuple[str, ...]) -> bool:
    if not names:
        return True
    equal, mixed, mig = EQUAL[gpu.board], MIXED[gpu.board], MIG[gpu.board]
    if gpu.mode in (None, "equal-size") and len({*names}) == 1 and len(names) <= equal.get(names[0], 0):
        return True
    if (
        gpu.mode in (None, "mixed-size")
        and all(name in mixed for name in names)
        and lies([mixed[name] for name in names], ())
    ):
        return True
    if gpu.mode not in (None, "mig") or any(name not in mig or names.count(name) > mig[name][2] for name in names):
        return False
    return lies([mig[name][:2] for name in names], ())


def lies(pieces: list[tuple[int, tuple[int, ...]]], taken: tuple[tuple[int, int], ...]) -> bool:
    """Whether each lies at one of its places and none on another."""
    if not pieces:
        return True
    length, places = pieces[0]
    return any(
        lies(pieces[1:], (*taken, (place, place + length)))
        for place in places
        if all(place + length <= start or end <= place for start, end in taken)
    )
