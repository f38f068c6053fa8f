# SPDX-License-Identifier: Apache-2.0
"""From the library's errors to Python's exceptions. The text is the command's, hints are Python's."""
from . import _core, _hints

# Numbers of mr_status: they never change.
_PARAM, _MEMORY, _IO, _NOT_FOUND, _TYPE = -1, -2, -3, -4, -8
_LIMIT, _UNSUPPORTED, _STATE = -6, -7, -9


class SampleError(RuntimeError):
    """A sample that cannot be used. `file` is where it comes from, `index` its place in the
    dataset, `offset` the byte of the file where that is known, else -1, `op` what failed on it; where a Python function failed, __cause__ is its exception."""

    file: str = ""
    index: int = -1
    offset: int = -1
    op: str = ""
    _is_type = False  # another type than the samples before it


class StateError(ValueError):
    """A saved state that is damaged or belongs to another pipeline, dataset or seed."""


class RemoteError(Exception):
    """The traceback of a worker process, as text."""

    def __str__(self) -> str:
        return "\n" + self.args[0]


def _class_of(code: int) -> type:
    return {_PARAM: ValueError, _TYPE: TypeError, _LIMIT: ValueError, _UNSUPPORTED: ValueError,
            _NOT_FOUND: FileNotFoundError, _MEMORY: MemoryError, _STATE: StateError}.get(
                code, RuntimeError)


def _exception_of(values: dict, message: str) -> Exception:
    if values["sample"] >= 0:
        error = SampleError(message)
        error.file, error.index = values["source"], values["sample"]
        error._is_type = values["code"] == _TYPE
        return error
    if values["code"] == _IO:
        return OSError(values["sys"], message) if values["sys"] else OSError(message)
    return _class_of(values["code"])(message)


def raise_error(values: dict, cause) -> None:
    message = values["message"].rstrip("\n").removeprefix("error: ")
    hint = _hints.in_python(values["hint"])
    if hint:
        message = message.replace(values["hint"], hint)
    error = _exception_of(values, message)
    error.op, error.where, error.hint = values["op"], values["where"], hint
    error.offset = values["offset"]
    if isinstance(cause, str):
        cause = RemoteError(cause)
    if cause is not None:
        raise error from cause
    raise error


_core.use_raiser(raise_error)
