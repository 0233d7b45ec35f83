"""How the contract's steps are written: each call is one operation with its expected outcome."""

from __future__ import annotations

from typing import Literal

from tests.kernel.contract.row import (
    Among,
    Await,
    Done,
    Follow,
    Hold,
    LetGo,
    Like,
    ListNames,
    Look,
    Open,
    Plugin,
    Read,
    ReadKept,
    Refused,
    Run,
    Start,
    Step,
    Tells,
    Waits,
    Write,
    WriteKept,
)

_COMES_BACK_S = 30.0  # a wait that has to end: much more than a slow machine needs
_STILL_WAITS_S = 0.2


def puts(path: str, text: str, *, truncate: bool = False, at_least_s: float = 0.0) -> Step:
    """The write is taken."""
    return Step(do=Write(path=path, text=text, truncate=truncate), expect=Done(at_least_s))


def refuses(errno: str, path: str, text: str, *, truncate: bool = False) -> Step:
    """The write fails."""
    return Step(do=Write(path=path, text=text, truncate=truncate), expect=Refused(errno))


def runs(*argv: str) -> Step:
    """The program succeeds."""
    return Step(do=Run(argv=argv), expect=Done())


def tells(path: str, content: str) -> Step:
    """The file has exactly this content."""
    return Step(do=Read(path=path), expect=Tells(content))


def like(path: str, pattern: str, *, varies: str = "") -> Step:
    """The file's content fits the pattern."""
    return Step(do=Read(path=path), expect=Like(pattern), varies=varies)


def unreadable(errno: str, path: str) -> Step:
    """The file cannot be read."""
    return Step(do=Read(path=path), expect=Refused(errno))


def names(path: str, *expected: str) -> Step:
    """The directory has these names and no others."""
    return Step(do=ListNames(path=path), expect=Tells(expected))


def among(path: str, *there: str, missing: tuple[str, ...] = (), varies: str) -> Step:
    """Among the directory's names are these, and not those."""
    return Step(do=ListNames(path=path), expect=Among(there=there, missing=missing), varies=varies)


def one_name(path: str, pattern: str, *, varies: str) -> Step:
    """The directory has one name, which fits the pattern."""
    return Step(do=ListNames(path=path), expect=Like(pattern), varies=varies)


def unlisted(errno: str, path: str) -> Step:
    """The directory cannot be listed."""
    return Step(do=ListNames(path=path), expect=Refused(errno))


def leads(path: str, *end: str) -> Step:
    """The link leads to a path that ends so."""
    return Step(do=Follow(path=path, parts=len(end)), expect=Tells("/".join(end)))


def leads_like(path: str, pattern: str, *, varies: str) -> Step:
    """The link leads to a name that fits the pattern."""
    return Step(do=Follow(path=path, parts=1), expect=Like(pattern), varies=varies)


def looks(path: str, kind: str) -> Step:
    """There is a `file MODE`, a `directory MODE` or a `link`."""
    return Step(do=Look(path=path), expect=Tells(kind))


def gone(path: str) -> Step:
    """Nothing is there."""
    return Step(do=Look(path=path), expect=Refused("ENOENT"))


def comes(path: str) -> Step:
    """Something will be there."""
    return Step(do=Look(path=path, within_s=_COMES_BACK_S), expect=Done())


def opens(path: str, how: Literal["r", "w", "rw"], keep: str) -> Step:
    """The file can be opened, and stays open under this name."""
    return Step(do=Open(path=path, how=how, keep=keep), expect=Done())


def closed(errno: str, path: str, how: Literal["r", "w", "rw"]) -> Step:
    """The file cannot be opened so."""
    return Step(do=Open(path=path, how=how), expect=Refused(errno))


def kept_read(errno: str, keep: str) -> Step:
    """Reading what was kept open fails."""
    return Step(do=ReadKept(keep=keep), expect=Refused(errno))


def kept_write(errno: str, keep: str, text: str) -> Step:
    """Writing to what was kept open fails."""
    return Step(do=WriteKept(keep=keep, text=text), expect=Refused(errno))


def waits(name: str, path: str, text: str) -> Step:
    """The write does not come back."""
    return Step(do=Start(name=name, path=path, text=text), expect=Waits())


def read_waits(name: str, path: str) -> Step:
    """The read does not come back."""
    return Step(do=Start(name=name, path=path, text=None), expect=Waits())


def still_waits(name: str) -> Step:
    """It has not come back yet."""
    return Step(do=Await(name=name, within_s=_STILL_WAITS_S), expect=Waits())


def ends(name: str) -> Step:
    """It comes back now, without an error."""
    return Step(do=Await(name=name, within_s=_COMES_BACK_S), expect=Done())


def fails(errno: str, name: str) -> Step:
    """It comes back now, with an error."""
    return Step(do=Await(name=name, within_s=_COMES_BACK_S), expect=Refused(errno))


def holds(device: str) -> Step:
    """A VM opens the vGPU."""
    return Step(do=Hold(device=device), expect=Done())


def lets_go(device: str) -> Step:
    """The VM that held it ends."""
    return Step(do=LetGo(device=device), expect=Done())


def is_killed(device: str) -> Step:
    """The VM that holds it is killed, and has not yet ended."""
    return Step(do=LetGo(device=device, waits=False), expect=Done())


def leaves_its_plugin(device: str) -> Step:
    """A VM had it and has ended, but its plugin has not."""
    return Step(do=Plugin(device=device, there=True), expect=Done())


def plugin_ends(device: str) -> Step:
    """The plugin ends, too."""
    return Step(do=Plugin(device=device, there=False), expect=Done())
