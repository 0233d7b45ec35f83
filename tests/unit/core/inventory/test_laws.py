"""Laws over generated inventories: order does not matter, valid ones round-trip, and no text ends in anything but our error."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from vgpumgr.core.driver.profiles import Wish, attributes
from vgpumgr.core.inventory import Inventory, SourceFile, Sources, build_inventory
from vgpumgr.core.inventory.ranges import expand
from vgpumgr.errors import BadName, InventoryError
from vgpumgr.inventory_files.reader import read_yaml

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

HOST = st.from_regex(r"kvm[0-9]{1,3}(\.example\.net)?", fullmatch=True)
VM = st.from_regex(r"[a-z][a-z0-9 ._-]{0,10}[a-z0-9]", fullmatch=True)
SLOT = st.from_regex(r"[A-Za-z0-9_-]{1,16}", fullmatch=True)
ASK = st.one_of(
    st.sampled_from(["4Q", "A40-8Q", "NVIDIA A40-4C", "1-5C"]).map(lambda text: {"profile": text}),
    st.sampled_from(["2g.10gb", "1g.10gb+me"]).map(lambda text: {"mig_profile": text}),
    st.integers(1, 999).map(lambda number: {"gpu_memory": f"{number}G", "series": "C"}),
    st.integers(1, 100).map(lambda percent: {"gpu": percent / 100}),
    st.integers(1, 99).map(lambda number: {"fgpu": number}),
)
VMS = st.dictionaries(VM, st.dictionaries(SLOT, ASK, max_size=3), max_size=3)
FLEET = st.dictionaries(HOST, VMS, min_size=1, max_size=4)


def dumped(data: object) -> str:
    return str(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False))


def build(texts: Mapping[str, str], host_vars: Mapping[str, str]) -> Inventory:
    """The inventory of these files, through the real reader and rules."""
    problems = []
    read = {}
    for name, text in [*texts.items(), *((f"host_vars/{name}", text) for name, text in host_vars.items())]:
        content, wrong = read_yaml(text, name)
        problems += wrong
        read[name] = SourceFile(file=name, content=content)
    sources = Sources(
        root="inventory",
        files=tuple(read[name] for name in sorted(texts)),
        host_vars={name: (read[f"host_vars/{name}"],) for name in host_vars},
        problems=tuple(problems),
    )
    return build_inventory(sources, home="/root", environ={})


def meaning(found: Inventory) -> object:
    """All that was declared, without the places."""

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return [(key, strip(item)) for key, item in value.items()]  # as a list, so that order counts
        if isinstance(value, tuple):
            return [strip(item) for item in value]
        if dataclasses.is_dataclass(value):
            fields = (field.name for field in dataclasses.fields(value))
            return {
                name: strip(getattr(value, name))
                for name in fields
                if name not in {"where", "findings", "vms_from", "roster"}
            }
        return value

    return strip(found)


def build_or_details(texts: Mapping[str, str], host_vars: Mapping[str, str]) -> tuple[str, ...] | None:
    """None for a valid inventory, else the error's lines."""
    try:
        build(texts, host_vars)
    except InventoryError as error:
        return error.details
    return None


def one_home_per_vm(fleet: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    return {host: {f"{vm}-{host}": slots for vm, slots in vms.items()} for host, vms in fleet.items()}


@given(fleet=FLEET, seed=st.randoms(use_true_random=False))
def test_the_order_of_files_and_keys_does_not_matter(fleet: dict[str, dict[str, object]], seed: random.Random) -> None:
    """Hosts spread over files in any order, keys in any order: the same inventory, in the same order."""
    fleet = one_home_per_vm(fleet)

    def shuffled(table: Mapping[str, object]) -> dict[str, object]:
        items = [(key, shuffled(item) if isinstance(item, dict) else item) for key, item in table.items()]
        seed.shuffle(items)
        return dict(items)

    plain = build(
        {"a.yml": dumped({"all": {"hosts": {name: {"vgpumgr_vms": vms} for name, vms in fleet.items()}}})}, {}
    )
    texts: dict[str, dict[str, object]] = {}
    host_vars = {}
    for name, vms in shuffled(fleet).items():
        hosts = texts.setdefault(seed.choice(["x.yml", "y.yml", "z.yml"]), {})
        if seed.random() < 0.5:
            hosts[name] = {"vgpumgr_vms": vms}
        else:
            hosts[name] = None
            host_vars[name] = dumped({"vgpumgr_vms": vms})
    files = {file: dumped({"g": {"hosts": hosts}}) for file, hosts in texts.items()}
    assert meaning(build(files, host_vars)) == meaning(plain)


@given(fleet=FLEET)
def test_every_valid_inventory_round_trips(fleet: dict[str, dict[str, dict[str, object]]]) -> None:
    """What was written is what is declared: hosts, VMs, slots and each wish; written again it is the same."""
    fleet = one_home_per_vm(fleet)  # type: ignore[assignment]
    text = dumped({"g": {"hosts": {name: {"vgpumgr_vms": vms} for name, vms in fleet.items()}}})
    found = build({"a.yml": text}, {})
    assert {host: {vm: set(slots) for vm, slots in vms.items()} for host, vms in fleet.items()} == {
        host.name: {vm.name: set(vm.slots) for vm in host.vms.values()} for host in found.hosts.values()
    }
    again = build({"a.yml": dumped({"g": {"hosts": written(found)}})}, {})
    assert meaning(again) == meaning(found)


def written(found: Inventory) -> dict[str, object]:
    """The inventory as variables again."""

    def ask(wish: Wish) -> dict[str, object]:
        told: dict[str, object] = {**attributes(wish)}
        if "gpu_memory_mib" in told:
            told["gpu_memory"] = f"{told.pop('gpu_memory_mib')}M"
        return told

    return {
        host.name: {
            "vgpumgr_vms": {
                vm.name: {slot.slot: ask(slot.wish) for slot in vm.slots.values()} for vm in host.vms.values()
            }
        }
        for host in found.hosts.values()
    }


WORDS = st.sampled_from(
    [
        "all", "hosts", "children", "vars", "ungrouped", "kvm01", "kvm[1:3]", "vgpumgr_vms", "vgpumgr_gpus", "vgpumgr_policy",
        "vgpumgr_fgpu_per_gpu", "vgpumgr_site", "ansible_host", "ansible_port", "ansible_user", "ansible_become", "ansible_connection",
        "ansible_ssh_common_args", "vm02", "vgpu0", "profile", "4Q", "gpu", "0.5", "gpu_memory", "8G", "mode", "mig",
        "scheduler", "policy", "time_slice", "2ms", "root", "ssh", "{{x}}", "-oUserKnownHostsFile=~/k",
    ]
)  # fmt: skip
TREES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=30,
)
TOKENS = st.lists(
    st.sampled_from(
        [": ", "- ", "\n", "  ", "{", "}", "[", "]", "&a ", "*a", "<<", "!x ", "!vault ", "'", '"', "|", "\t", "---"]
    )
    | WORDS
    | st.text(max_size=3)
).map("".join)


KNOWN = st.sampled_from(
    [
        "vgpumgr_vms", "vgpumgr_gpus", "vgpumgr_policy", "vgpumgr_fgpu_per_gpu", "ansible_host", "ansible_port", "ansible_user",
        "ansible_become", "ansible_ssh_common_args", "ansible_connection", "ansible_ssh_private_key_file", "ansible_password",
        "ansible_ssh_host_key_checking",
    ]
)  # fmt: skip
VARIABLES = st.dictionaries(KNOWN, TREES, max_size=5)


@settings(max_examples=dose(100, 300))
@given(text=TREES.map(dumped) | TOKENS, variables=VARIABLES.map(dumped) | TOKENS)
def test_no_text_and_no_variable_makes_anything_but_an_inventory_or_its_error(text: str, variables: str) -> None:
    base = "all: {hosts: {kvm01: }}\n"
    details = build_or_details({"base.yml": base, "x.yml": text}, {"kvm01": variables})
    assert details is None or (details and all(".yml:" in line or "kvm01:" in line for line in details))


@given(st.integers(0, 300), st.integers(0, 60), st.integers(1, 9), st.integers(1, 4))
def test_a_range_names_what_it_counts(first: int, more: int, step: int, width: int) -> None:
    """Numbers are counted with their step, and padded where the first one is."""
    low, high = f"{first:0{width}d}", f"{first + more:0{width}d}"
    if len(low) != len(high) and low.startswith("0") and len(low) > 1:
        return
    names, port = expand(f"kvm[{low}:{high}:{step}].x:22")
    padding = len(low) if low.startswith("0") and len(low) > 1 else 0
    assert names == [f"kvm{number:0{padding}d}.x" for number in range(first, first + more + 1, step)]
    assert port == 22


@given(st.text(alphabet="kvm[]:019az-. ", max_size=20))
def test_any_pattern_names_hosts_or_is_a_bad_name(pattern: str) -> None:
    """A host pattern gives names or BadName, nothing else."""
    try:
        names, _ = expand(pattern)
    except BadName:
        return
    assert names
