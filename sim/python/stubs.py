"""Prints package/_settings.pyi: the settings of plans as types, from the table of fields.

    ./rehearse list fields --json | python3 sim/python/stubs.py > sim/python/package/_settings.pyi
"""

import json
import re
import sys

HEAD = '''# Written by sim/python/stubs.py from `rehearse list fields --json`: do not edit.
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict, Union

Name = Union[str, "PathLike[str]"]
Block = Mapping[str, Any]
'''
# Arguments of `rehearse.plan` of the same name take lists and have their own types.
OWN = ("model", "cluster", "gpus", "sequence")


def type_of(text, name):
    if text.startswith("list of "):
        one = type_of(text[8:], "")
        return f"Union[{one}, Iterable[{one}]]"
    if text.startswith("integer"):
        return "int"
    if text.startswith("number"):
        return "float"
    if text == "true|false":
        return "bool"
    if text == "block":
        return "Block"
    if re.fullmatch(r"[a-z0-9_]+(\|[a-z0-9_]+)+", text):
        return "Literal[" + ", ".join(f'"{one}"' for one in text.split("|")) + "]"
    return "Name" if name in ("model", "cluster", "profile") else "str"


def lines_of(name, kind, lists):
    one = f"Union[{kind}, Iterable[{kind}]]" if lists else kind
    line = f"    {name}: {one}"
    return line if len(line) <= 100 else line.replace("Literal[", "Literal[  # noqa: E501\n        ")


def class_of(name, base, rows, lists):
    body = "\n".join(lines_of(one, kind, lists) for one, kind in rows)
    return f"\nclass {name}({base}, total=False):\n{body}\n"


def main():
    rows = {}
    for field in json.load(sys.stdin)["result"]["fields"]:
        if "." in field["name"]:
            continue
        if field["of"] == "plan" or field["type"] == "block":
            rows.setdefault(field["name"], type_of(field["type"], field["name"]))
    some = [(name, kind) for name, kind in rows.items() if name not in OWN]
    own = [(name, rows[name]) for name in OWN]
    print(HEAD + class_of("Fields", "TypedDict", some, False)
          + class_of("Settings", "Fields", own, False)
          + class_of("FieldLists", "TypedDict", some, True)
          + class_of("SettingLists", "FieldLists", own, True), end="")


main()
