"""Facts and values by field name: a difference that nobody stated is an error when the module is imported, not a value that is missing."""

import inspect
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, List, Literal, NewType, Optional, TypedDict  # noqa: UP035 -- as in the protocol

import pytest

from vgpumgr import names
from vgpumgr.core.driver import mig as driver_mig
from vgpumgr.core.driver import modes, modprobe, profiles, scheduler
from vgpumgr.core.model import domain_dumps, functions, mig, reservation, snapshot, vgpu
from vgpumgr.core.usage import guest, readings
from vgpumgr.link.values import by_name, libvirt_facts, sampling_facts, snapshot_facts
from vgpumgr.link.values.by_name import declare, render

PARSERS = (snapshot_facts.parse, sampling_facts.parse, libvirt_facts.parse)  # importing them has declared every fact
READERS = dict(by_name._readers)
MODULES = (
    typing,
    names,
    driver_mig,
    modes,
    modprobe,
    profiles,
    scheduler,
    domain_dumps,
    functions,
    mig,
    reservation,
    snapshot,
    vgpu,
    guest,
    readings,
)


class WheelFact(TypedDict):
    inches: int


class CartFact(TypedDict):
    name: str
    owner: Optional[str]  # noqa: UP045 -- as in the protocol
    wheels: List[WheelFact]  # noqa: UP006
    best: Optional[WheelFact]  # noqa: UP045


@dataclass(frozen=True, kw_only=True)
class Wheel:
    inches: int


@dataclass(frozen=True, kw_only=True)
class Cart:
    name: str
    whose: str | None
    wheels: tuple[Wheel, ...]
    best: Wheel | None = None


FACT: CartFact = {"name": "a", "owner": None, "wheels": [{"inches": 3}, {"inches": 4}], "best": {"inches": 9}}
CART = Cart(name="a", whose=None, wheels=(Wheel(inches=3), Wheel(inches=4)), best=Wheel(inches=9))


@pytest.fixture(autouse=True)
def wheel() -> None:
    declare(WheelFact, Wheel)


def test_a_value_has_what_its_fact_says_under_the_same_names() -> None:
    assert declare(CartFact, Cart, whose="owner")(FACT) == CART
    assert declare(CartFact, Cart, "best", whose=lambda row: row["name"] * 2)({**FACT, "best": None}).whose == "aa"
    assert declare(CartFact, Cart, "best", whose="owner")(FACT, best=None).best is None


def test_what_a_later_host_program_reports_in_addition_is_left_out() -> None:
    assert declare(CartFact, Cart, whose="owner")({**FACT, "colour": "red"}) == CART


@pytest.mark.parametrize(
    ("differing", "named"), [({}, "whose"), ({"whose": "lender"}, "lender"), ({"whose": "owner", "hue": "name"}, "hue")]
)
def test_a_field_without_a_key_is_an_error_at_once_even_if_it_has_a_default(
    differing: dict[str, str], named: str
) -> None:
    with pytest.raises(TypeError, match=named):
        declare(CartFact, Cart, **differing)


def test_a_fact_states_a_value_again() -> None:
    assert render(CartFact, CART, owner=CART.whose) == FACT
    assert render(CartFact, Cart(name="b", whose="c", wheels=()), owner="c")["best"] is None


def kind(hint: Any) -> object:
    """A type as both sides write it: a name is a text, a list is a tuple, and what an object holds is checked for itself."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, NewType):
        return kind(hint.__supertype__)
    if origin is Literal:
        return str
    if origin in (list, tuple):
        return "list", kind(inner[0])
    if origin in (dict, Mapping):
        return dict
    if isinstance(hint, type) and (typing.is_typeddict(hint) or is_dataclass(hint)):
        return dict
    return frozenset(map(kind, inner)) if type(None) in inner else hint


def same_keys() -> Iterable[tuple[str, object, object]]:
    """Each field that is the key of a fact as it stands: the types of both."""
    namespace = {name: each for module in MODULES for name, each in vars(module).items()} | {"Mapping": Mapping}
    for fact, read in READERS.items():
        reader = inspect.getclosurevars(read).nonlocals
        hints = typing.get_type_hints(reader["value"], localns=namespace)
        for field, key in reader["same"]:
            yield f"{fact.__name__}.{key}", fact.__annotations__[key], hints[field]


def test_a_field_has_the_type_of_its_key() -> None:
    compared = list(same_keys())
    assert len(compared) > 100
    assert [where for where, of_key, of_field in compared if kind(of_key) != kind(of_field)] == []
