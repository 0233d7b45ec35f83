"""Checks of what comes from outside, key by key, each with a text that says what the key must be.

The keys and their types are those of the protocol's TypedDicts; stricter rules are stated where the key is read.
"""

import re
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Literal,
    Mapping,
    NoReturn,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from .protocol.session import BAD_REQUEST
from .refusal import Refusal

Check = Callable[[object], bool]
Checks = Mapping[str, Tuple[Check, str]]
Shape = TypeVar("Shape")


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_unsigned(value: object) -> bool:
    """Whether NVML's unsigned 32-bit fields take the number: a larger one would silently wrap around."""
    return isinstance(value, int) and is_count(value) and value < 2**32


def matches(pattern: str) -> Check:
    """A check of the whole text by a regular expression."""
    regex = re.compile(pattern)
    return lambda value: isinstance(value, str) and regex.fullmatch(value) is not None


def one_of(*values: str) -> Check:
    return lambda value: isinstance(value, str) and value in values


_TYPES: Dict[Any, Tuple[Check, str]] = {
    str: (is_text, "a text"),
    int: (is_count, "a number"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    List[str]: (lambda value: isinstance(value, list) and all(map(is_text, value)), "a list of texts"),
}


def checks_of(shape: type, narrower: Checks) -> Checks:
    """The checks of a TypedDict's keys: from `narrower`, else by type. The keys of an object in it are not checked."""
    return {key: type_check(hint, narrower.get(key)) for key, hint in shape.__annotations__.items()}


def type_check(hint: Any, narrower: Optional[Tuple[Check, str]] = None) -> Tuple[Check, str]:
    """The check of one type: `narrower`, if given. Null passes if the type allows it."""
    inner = _given(hint)
    if inner is not hint:
        check, text = type_check(inner, narrower)
        return (lambda value: value is None or check(value)), text + " or null"
    if narrower is not None:
        return narrower
    if get_origin(hint) is Literal:
        return one_of(*get_args(hint)), "one of {}".format(", ".join(get_args(hint)))
    return _TYPES.get(hint, (lambda value: isinstance(value, dict), "an object"))


def _given(hint: Any) -> Any:
    """The type without null."""
    return get_args(hint)[0] if get_origin(hint) is Union else hint


def check_fields(data: object, checks: Checks, what: str) -> Dict[str, Any]:
    """The values of these keys in `data`; other keys are dropped. Raises Refusal(BadRequest) saying which is wrong."""
    if not isinstance(data, dict):
        refuse("{} must be an object".format(what))
    for key, (check, text) in checks.items():
        if key not in data:
            refuse("{}.{} is missing".format(what, key))
        if not check(data[key]):
            refuse("{}.{} must be {}, not {!r:.200}".format(what, key, text, data[key]))
    return {key: data[key] for key in checks}


def reader(shape: Type[Shape], what: str, narrower: Checks) -> Callable[[object], Shape]:
    """A function that reads an object of that shape, and the objects in it. It raises Refusal(BadRequest)."""
    checks = checks_of(shape, narrower)
    hints = {key: _given(hint) for key, hint in shape.__annotations__.items()}
    inner = {
        key: reader(hint, "{}.{}".format(what, key), narrower)
        for key, hint in hints.items()
        if hasattr(hint, "__total__")  # a TypedDict
    }

    def read(data: object) -> Shape:
        fields = check_fields(data, checks, what)
        for key, read_inner in inner.items():
            if fields[key] is not None:
                fields[key] = read_inner(fields[key])
        return cast("Shape", fields)

    return read


def refuse(message: str) -> NoReturn:
    raise Refusal(BAD_REQUEST, message)
