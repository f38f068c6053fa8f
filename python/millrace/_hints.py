# SPDX-License-Identifier: Apache-2.0
"""The library's hints speak of documents and of the command: here they are put into Python.

What of a hint is JSON becomes the call that writes it: "on_error": "skip" is .on_error("skip"), {"files": {"path":
"photos"}} is mr.files(path="photos"), "lenient": true is lenient=True. An option of the command becomes a keyword of
loader(). The command's other verbs are what they are: they work in any shell."""
import json
import re

_PHRASES = {"the file that --state-out wrote": "what loader.state_dict() gave",
            "millrace run PIPELINE.json --trace FILE writes one": "loader(trace=FILE) writes one",
            "--journal FOLDER, or journal=... of loader()": "loader(journal=FOLDER)",
            "(--reads, reads_in_flight)": "(loader(reads=...))",
            '"until" for': "until= for"}
_OPTION = re.compile(r"(?<!\S)--([a-z][a-z-]*)(?: ([0-9][^\s,]*))?")
_PAIR = re.compile(r'"([a-z_]+)": ')
_CALL = re.compile(r'\{"([a-z_]+)": ')
_ELSE = "\u2026"  # stands for what a hint leaves out


def _names():
    """Names of ops, settings and steps that are methods, and names of sources."""
    from . import _pipeline, _tables
    methods = {name for name in vars(_pipeline.Pipeline) if not name.startswith("_")}
    return methods, {table["name"] for table in _tables.TABLES["sources"]}


def _value(value):
    if value == _ELSE:
        return "..."
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_value(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _arguments(value):
    if isinstance(value, dict) and all(key.isidentifier() or key == _ELSE for key in value):
        return ", ".join("..." if key == _ELSE else f"{key}={_value(v)}" for key, v in value.items())
    return _value(value)


def _read(text, start):
    """The JSON value that begins there, and where it ends; None: there is none."""
    try:
        return json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return None


def _pair(name, value, methods, sources):
    """A key of a document, or of an op's parameters."""
    if name == "source" and isinstance(value, dict) and set(value) <= sources:
        return ", ".join(f"mr.{key}({_arguments(v)})" for key, v in value.items())
    if name == "cache" and value == "auto":
        return ".auto_cache()"
    if name == "where" and isinstance(value, list):  # the source's own condition: the step takes a text
        return f"mr.parquet(..., where={_value(value)})"
    if name in methods and name != "fields":
        return f".{name}({_arguments(value)})"
    return f"{name}={_value(value)}"


def _next_fragment(text, at, methods, sources):
    """The next piece of JSON: where it begins, where it ends, and what it is in Python; None: there is none."""
    while match := _PAIR.search(text, at):
        start = match.start() - (text[match.start() - 1:match.start()] == "{")
        call = _CALL.match(text, start)
        found = _read(text, start if call else match.end())
        if found and call and len(found[0]) == 1 and match[1] in methods | sources:
            prefix = "mr." if match[1] in sources and match[1] not in methods else "."
            return start, found[1], f"{prefix}{match[1]}({_arguments(found[0][match[1]])})"
        if found and not call:
            return start, found[1], _pair(match[1], found[0], methods, sources)
        at = match.end()
    return None


def in_python(hint):
    """The hint for somebody who writes Python."""
    if '": ' not in hint and "--" not in hint and "`" not in hint and '"until"' not in hint:
        return hint
    for phrase, other in _PHRASES.items():
        hint = hint.replace(phrase, other)
    if "millrace " not in hint:
        hint = _OPTION.sub(lambda m: f"{m[1].replace('-', '_')}={m[2] or '...'}", hint)
    text, at = hint.replace("...}", f'"{_ELSE}": 0}}').replace("[...]", f'["{_ELSE}"]'), 0
    methods, sources = _names()
    while fragment := _next_fragment(text, at, methods, sources):
        start, end, python = fragment
        text, at = text[:start] + python + text[end:], start + len(python)
    return re.sub(r"`([a-z_]+)`", r"\1=", text.replace(f'"{_ELSE}": 0}}', "...}"))
