"""Hints in Ansible's words: no option of the command line that the author of a playbook cannot write."""

from __future__ import annotations

import ast
import importlib.util
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests import sources
from tests.sources import PRODUCT, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a task of the collection runs. The rest of the package speaks to people at a command line only.
SPOKEN_BY = ("controller", "core", "documents", "inventory_files", "link", "names.py", "store")
# Use cases of commands that no module has. A task never comes there.
NOT_OF_A_TASK = {
    "controller/drain.py",
    "controller/install_files.py",
    "core/model/login_lines.py",  # host sudoers, host user
    "core/plan/kept.py",  # a plan in a file
    "core/plan/live.py",  # attach --live
    "core/plan/size_mode.py",
    "core/report/capacity.py",
}
# A plan in a file, slots without a name and running VMs, which no task has; and an option of virsh.
OF_OTHERS = {"--out", "--all", "--live", "--force-live-detach", "--count", "--remove"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OURS = re.compile(r"`vgpumgr (?:attach|reconcile) [^`]*`")


@pytest.fixture(scope="module")
def said() -> Any:
    spec = importlib.util.spec_from_file_location("spelling", ROOT / "ansible/plugins/module_utils/spelling.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.said


def _text(node: ast.expr) -> str:
    """A text of the source; what it takes in is a letter."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_text(value) if isinstance(value, ast.Constant) else "X" for value in values)
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case _:
            return "X"


def _sentences(tree: ast.AST) -> Iterator[str]:
    """Every text that holds a blank and an option, except for docstrings."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in documents | within:
            text = _text(node)
            if OPTION.search(text) and " " in text.strip():
                yield text


def _spoken() -> list[tuple[str, str]]:
    assert all((PRODUCT / name).is_file() for name in NOT_OF_A_TASK)
    names = {str(file.relative_to(PRODUCT)): file for file in sources.files("vgpumgr")}
    return [
        (name, text)
        for name, file in names.items()
        if name.partition("/")[0] in SPOKEN_BY and name not in NOT_OF_A_TASK and OPTION.search(sources.text(file))
        for text in _sentences(sources.tree(file))
    ]


def test_no_sentence_that_a_task_can_say_holds_an_option_of_the_command_line(said: Any) -> None:
    spoken = _spoken()
    assert len(spoken) > 20
    for name, text in spoken:
        told = said(text)
        outside = "".join(told.split("`")[::2])
        assert set(OPTION.findall(outside)) <= OF_OTHERS, f"{name}: {told}"
        assert not OURS.search(told), f"{name}: {told}"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("name the VM's host with --on", "name the VM's host with `host:`"),
        ("name one: --on kvm01", "name one: `host: kvm01`"),
        ("ask with --gpu or --gpu-memory", "ask with `gpu:` or `gpu_memory:`"),
        ("has --gpu 0.2 --max-waste 30, not that", "has `gpu: 0.2` `max_waste: 30`, not that"),
        ("--replace creates another one and keeps it", "`replace: always` creates another one and keeps it"),
        ("-i/--inventory: no such folder", "`inventory:`: no such folder"),
        ("a larger --timeout waits longer", "a larger `timeout:` waits longer"),
        (
            "`vgpumgr attach vm01 --profile 8Q --gpu-id 0000:81:00.0 --replace` replaces it",
            "`vgpumgr.kvm.vgpu: {name: vm01, profile: 8Q, gpu_id: '0000:81:00.0', replace: always}` replaces it",
        ),
        (
            "`vgpumgr detach --slot vgpu1 --on kvm01 --keep-snapshots -- -vm` frees it",
            "`vgpumgr.kvm.vgpu: {name: -vm, slot: vgpu1, host: kvm01, keep_snapshots: true, state: absent}` frees it",
        ),
        (
            "if the inventory is right: `vgpumgr reconcile --confirm-destroys 3`",
            "if the inventory is right: `vgpumgr.kvm.vgpu_reconcile: {confirm_destroys: 3}`",
        ),
        # No task does these: they stay commands of a shell, whole.
        ("`vgpumgr detach vm01` frees its only slot", "`vgpumgr detach vm01` frees its only slot"),
        ("`vgpumgr attach vm01 --profile 4Q --live`", "`vgpumgr attach vm01 --profile 4Q --live`"),
        ("`vgpumgr uncordon kvm01 --gpu-id X`", "`vgpumgr uncordon kvm01 --gpu-id X`"),
        ("`virsh attach-device VM FILE --config`", "`virsh attach-device VM FILE --config`"),
        ("`it's no command`", "`it's no command`"),
        ("inspect it with --check --diff", "inspect it with --check --diff"),  # ansible-playbook has these itself
        ("ssh -- kvm01", "ssh -- kvm01"),
    ],
)
def test_an_option_becomes_the_modules_own_and_a_command_its_task(said: Any, ours: str, theirs: str) -> None:
    assert said(ours) == theirs
