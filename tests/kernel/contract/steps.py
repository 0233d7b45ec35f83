"""How the contract's steps are written: each call is one operation with its expected outcome."""

from __future__ import annotations

from typing import Literal

from tests.kernel.contract.row import Among, Done, Like, Operation, Outcome, Refused, Step, Tells, Waits

_COMES_BACK_S = 120.0  # a wait that has to end: much more than a slow machine needs
_STILL_WAITS_S = 0.2


def _step(do: str, expect: Outcome, *, varies: str = "", **keys: object) -> Step:
    return Step(do=Operation(do, keys), expect=expect, varies=varies)


def puts(path: str, text: str, *, truncate: bool = False, at_least_s: float = 0.0) -> Step:
    """The write is taken."""
    return _step("write", Done(at_least_s), path=path, text=text, truncate=truncate)


def refuses(errno: str, path: str, text: str) -> Step:
    """The write fails."""
    return _step("write", Refused(errno), path=path, text=text)


def runs(*argv: str) -> Step:
    """The program succeeds."""
    return _step("run", Done(), argv=argv)


def tells(path: str, content: str) -> Step:
    """The file has exactly this content."""
    return _step("read", Tells(content), path=path)


def like(path: str, pattern: str, *, varies: str = "") -> Step:
    """The file's content fits the pattern."""
    return _step("read", Like(pattern), varies=varies, path=path)


def unreadable(errno: str, path: str) -> Step:
    """The file cannot be read."""
    return _step("read", Refused(errno), path=path)


def names(path: str, *expected: str) -> Step:
    """The directory has these names and no others."""
    return _step("list", Tells(expected), path=path)


def among(path: str, *there: str, missing: tuple[str, ...] = (), varies: str) -> Step:
    """Among the directory's names are these, and not those."""
    return _step("list", Among(there=there, missing=missing), varies=varies, path=path)


def one_name(path: str, pattern: str, *, varies: str) -> Step:
    """The directory has one name, which fits the pattern."""
    return _step("list", Like(pattern), varies=varies, path=path)


def unlisted(errno: str, path: str) -> Step:
    """The directory cannot be listed."""
    return _step("list", Refused(errno), path=path)


def leads(path: str, *end: str) -> Step:
    """The link leads to a path that ends so."""
    return _step("follow", Tells("/".join(end)), path=path, parts=len(end))


def leads_like(path: str, pattern: str, *, varies: str) -> Step:
    """The link leads to a name that fits the pattern."""
    return _step("follow", Like(pattern), varies=varies, path=path, parts=1)


def looks(path: str, kind: str) -> Step:
    """There is a `file MODE`, a `directory MODE` or a `link`."""
    return _step("look", Tells(kind), path=path)


def gone(path: str) -> Step:
    """Nothing is there."""
    return _step("look", Refused("ENOENT"), path=path)


def comes(path: str) -> Step:
    """Something will be there."""
    return _step("look", Done(), path=path, within_s=_COMES_BACK_S)


def opens(path: str, how: Literal["r", "w", "rw"], keep: str) -> Step:
    """The file can be opened, and stays open under this name."""
    return _step("open", Done(), path=path, how=how, keep=keep)


def closed(errno: str, path: str, how: Literal["r", "w", "rw"]) -> Step:
    """The file cannot be opened so."""
    return _step("open", Refused(errno), path=path, how=how)


def kept_read(errno: str, keep: str) -> Step:
    """Reading what was kept open fails."""
    return _step("read_kept", Refused(errno), keep=keep)


def kept_write(errno: str, keep: str, text: str) -> Step:
    """Writing to what was kept open fails."""
    return _step("write_kept", Refused(errno), keep=keep, text=text)


def waits(name: str, path: str, text: str) -> Step:
    """The write does not come back."""
    return _step("start", Waits(), name=name, path=path, text=text)


def read_waits(name: str, path: str) -> Step:
    """The read does not come back."""
    return _step("start", Waits(), name=name, path=path, text=None)


def still_waits(name: str) -> Step:
    """It has not come back yet."""
    return _step("await", Waits(), name=name, within_s=_STILL_WAITS_S)


def ends(name: str) -> Step:
    """It comes back now, without an error."""
    return _step("await", Done(), name=name, within_s=_COMES_BACK_S)


def fails(errno: str, name: str) -> Step:
    """It comes back now, with an error."""
    return _step("await", Refused(errno), name=name, within_s=_COMES_BACK_S)


def holds(device: str) -> Step:
    """A VM opens the vGPU."""
    return _step("hold", Done(), device=device)


def lets_go(device: str) -> Step:
    """The VM that held it ends."""
    return _step("let_go", Done(), device=device)


def is_killed(device: str) -> Step:
    """The VM that holds it is killed, and has not yet ended."""
    return _step("let_go", Done(), device=device, waits=False)


def leaves_its_plugin(device: str) -> Step:
    """A VM had it and has ended, but its plugin has not."""
    return _step("plugin", Done(), device=device, there=True)


def plugin_ends(device: str) -> Step:
    """The plugin ends, too."""
    return _step("plugin", Done(), device=device, there=False)
