# SPDX-License-Identifier: Apache-2.0
"""Methods from the tables of the C library: names, signatures, defaults and docs."""
import difflib
import functools
import json
from inspect import Parameter, Signature, signature
from keyword import iskeyword

from . import _core

TABLES = _core.tables()

_ANNOTATIONS = {"int": "int", "float": "float", "bool": "bool", "string": "str",
                "ints": "int | Sequence[int]", "floats": "float | Sequence[float]",
                "strings": "str | Sequence[str]", "bytes": "int | str", "json": "object",
                "ops": "Sequence[str | Mapping[str, Mapping[str, object]]]"}


def annotation(row):
    if row["kind"] == "choice":
        return "Literal[" + ", ".join(json.dumps(choice) for choice in row["choices"]) + "]"
    if row["kind"] == "string" and row["name"] in ("path", "list"):
        return "str | PathLike[str]"
    if row["kind"] == "json" and row["name"] == "classes":
        names = "str | PathLike[str] | Sequence[str]"
        return f"{names} | Mapping[str, {names}] | None"
    return _ANNOTATIONS[row["kind"]]


def default_of(row):
    return Parameter.empty if row["default"] is None else json.loads(row["default"])


def python_name(name):
    """A parameter's name as Python can have it: from_ for from."""
    return f"{name}_" if iskeyword(name) else name


def document_name(name):
    return name[:-1] if name.endswith("_") and iskeyword(name[:-1]) else name


def signature_of(table, result, first=("self",), extra=()):
    """The table's rows in their order; rows without a default come first, as Python wants it."""
    rows = sorted(table["params"], key=lambda row: row["default"] is not None)
    kind = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter(name, kind) for name in first]
    parameters += [Parameter(python_name(row["name"]), kind, default=default_of(row),
                             annotation=annotation(row)) for row in rows]
    parameters += extra
    return Signature(parameters, return_annotation=result)


FIELD = Parameter("field", Parameter.KEYWORD_ONLY, default=None, annotation="str | Sequence[str] | None")


def doc_of(table):
    lines = [table["summary"]]
    if table["doc"]:
        lines += ["", table["doc"]]
    if table["params"]:
        lines += ["", "Parameters:"]
    for row in table["params"]:
        default = "" if row["default"] is None else f" Default: {row['default']}."
        lines.append(f"    {row['name']}: {row['doc']}{default}")
    return "\n".join(lines)


def bind(name, names, args, keywords):
    """Arguments by name. Values and names are checked by the library alone."""
    if len(args) > len(names):
        raise TypeError(f"{name}() takes at most {len(names)} arguments, {len(args)} were given")
    values = dict(zip(names, args))
    for key, value in ((document_name(key), value) for key, value in keywords.items()):
        if key in values:
            raise TypeError(f"{name}() got {key} twice")
        values[key] = value
    return values


def positional_names(table):
    rows = sorted(table["params"], key=lambda row: row["default"] is not None)
    return [row["name"] for row in rows]


def dress(function, table, signature, owner=""):
    function.__name__ = table["name"]
    function.__qualname__ = owner + table["name"]
    function.__doc__ = doc_of(table)
    function.__signature__ = signature
    return function


def _plain(name):
    return name.replace("_", "").lower()


def known_as(name, kind, others=()):
    """What is called `name` by others, or spelled so: of tables of that kind, or of (theirs, ours); None: nothing."""
    for table in TABLES[kind]:
        if _plain(name) in map(_plain, (table["name"], *table["also"].split())):
            return table["name"]
    return next((ours for theirs, ours in others if _plain(theirs) == _plain(name)), None)


def suggesting(method):
    """A method that says which of its keywords may have been meant."""
    known = [name for name, one in signature(method).parameters.items() if one.kind is one.KEYWORD_ONLY]

    @functools.wraps(method)
    def call(self, *args, **keywords):
        for name in keywords:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                raise TypeError(f"{method.__name__}() has no {name!r}{meant}\n  known: {', '.join(known)}")
        return method(self, *args, **keywords)
    return call
