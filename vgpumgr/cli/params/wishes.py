"""The ways to ask for a vGPU, as options of attach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from vgpumgr.cli.params import candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.core.driver.asking import Conditions
    from vgpumgr.core.driver.profiles import Wish

Command = TypeVar("Command", bound="Callable[..., Any]")

_OPTIONS = (
    click.option(
        "--profile",
        metavar="PROFILE",
        shell_complete=candidates.profiles,
        help="Exactly this type: 4Q, A40-4Q or 'NVIDIA A40-4Q'.",
    ),
    click.option(
        "--gpu-memory", metavar="SIZE", help="The smallest type with at least this much framebuffer: 4G, 512M."
    ),
    click.option("--gpu", metavar="SHARE", help="The smallest type that is this share of a GPU: 0.25."),
    click.option(
        "--fgpu",
        metavar="NUMBER",
        help="The smallest type with this many fGPUs, the site's unit (vgpumgr_fgpu_per_gpu): 0.5.",
    ),
    click.option(
        "--mig-profile", metavar="PROFILE", help="A MIG-backed type of exactly this instance profile: 2g.10gb."
    ),
    click.option("--series", type=click.Choice(["A", "B", "C", "Q"]), help="The series, with an amount (default: C)."),
    click.option(
        "--usable", is_flag=True, help="With an amount: the guest must see that much, not only the type's name."
    ),
    click.option("--max-waste", metavar="PCT", help="Refuse a type of which more than PCT percent would be wasted."),
    click.option(
        "--compute",
        type=click.Choice(["best-effort", "equal-share", "fixed-share"]),
        help="Only a GPU whose scheduler has this policy.",
    ),
    click.option("--only", type=click.Choice(["mig", "time-sliced"]), help="Only a GPU that is divided this way."),
    click.option("--prefer", type=click.Choice(["mig", "time-sliced"]), help="Prefer a GPU that is divided this way."),
)
policy_option = click.option(
    "--policy",
    metavar="NAME",
    shell_complete=candidates.policies,
    help="Which of several GPUs: least-fragmentation, pack, spread, numa, or one of the site's own.",
)
param_option = click.option(
    "--param",
    metavar="NAME=0|1",
    multiple=True,
    callback=lambda _context, _option, given: ",".join(given) or None,
    help="A plugin parameter of NVIDIA's (vgpu_params): enable_uvm=1, frame_rate_limiter=0. May be repeated.",
)


def options(command: Command) -> Command:
    """Add the options. The command gets them as keywords, for `read`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def spelt(key: str) -> str:
    """The option for a key: `--gpu-memory` for `gpu_memory`."""
    return f"--{key.replace('_', '-')}"


def read(
    vm: str, asked: Mapping[str, str | bool | None], spelt: Callable[[str], str] = spelt
) -> tuple[Wish, Conditions]:
    """The wish and conditions for a VM. Raises UsageError and BadName. `spelt`: a key as the user wrote it."""
    from vgpumgr.core.driver import asking

    return asking.read(asked, about=vm, spelt=spelt)


def guard_profile_as_vm(vms: Sequence[str]) -> None:
    """Raises UsageError if an argument after the first looks like a profile. Called if no wish was given."""
    from vgpumgr.core.driver import profiles
    from vgpumgr.errors import BadName, UsageError

    for text in vms[1:]:
        try:
            profiles.parse_profile(text)
        except BadName:
            continue
        raise UsageError(f"{text} is taken for a VM, and no vGPU is asked for", hint=f"did you mean --profile {text}?")
