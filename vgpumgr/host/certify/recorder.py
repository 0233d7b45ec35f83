"""Wraps NVML's binding, and records each call."""

import json
from typing import Any, List, Optional

from ..protocol.capture import NvmlCall

_HANDLE_OF = "nvmlDeviceGetHandleByPciBusId"


class Recorder:
    """Has every name of the binding. Each call of an NVML function adds a row to `calls`."""

    def __init__(self, binding: Any, calls: List[NvmlCall]) -> None:
        self._binding = binding
        self._calls = calls
        self._gpu: Optional[str] = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._binding, name)
        if not (name.startswith("nvml") and callable(found)):
            return found

        def call(*arguments: Any) -> Any:
            if name == _HANDLE_OF:
                self._gpu = str(arguments[0])
            of = json.dumps([one for one in arguments if isinstance(one, (int, str))])
            row: NvmlCall = {"gpu": self._gpu, "call": name, "code": 0, "of": of, "answer": "null"}
            try:
                answer = found(*arguments)
            except self._binding.NVMLError as error:
                self._calls.append({**row, "code": int(getattr(error, "value", 0))})
                raise
            self._calls.append({**row, "answer": json.dumps(_plain(answer))})
            return answer

        return call


def _plain(value: Any) -> Any:
    """An answer as JSON's types. A handle becomes the name of its type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)) or hasattr(type(value), "_length_"):
        return [_plain(each) for each in value]
    fields = getattr(type(value), "_fields_", ())
    return {field[0]: _plain(getattr(value, field[0])) for field in fields} or type(value).__name__
