"""Mutants of sim/: one small change each to what a .cpp computes.

Kinds: relational (< and <= swapped, == and !=, ...), arithmetic (+ and -, * and /), logical (&& and
||), constant (an integer one larger), condition (an if negated), statement (one left out). Headers
are left alone: what they compute is used all over, and a mutant would compile half the program.
"""

import re
from dataclasses import dataclass
from pathlib import Path

OPERATORS = {
    "relational": {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    "arithmetic": {"+": "-", "-": "+", "*": "/", "/": "*", "+=": "-=", "-=": "+=", "%": "/"},
    "logical": {"&&": "||", "||": "&&"},
}
TWIN = {old: (kind, new) for kind, pairs in OPERATORS.items() for old, new in pairs.items()}
# Binary operators have blanks around them, which template brackets and pointers have not.
OPERATOR = re.compile(r"(?<= )(<=|>=|==|!=|\+=|-=|&&|\|\||[-+*/%<>])(?= )")
NUMBER = re.compile(r"(?<![\w.'])\d+(?![\w.'])")
CONDITION = re.compile(r"\bif \(")
STATEMENT = re.compile(r"^ +(?!return\b|using\b|throw\b|case\b|break\b|continue\b|goto\b|else\b"
                       r"|const\b|auto\b|static\b|if\b|for\b|while\b)"
                       r"[a-z][\w.:\->\[\]()]*( [-+|&*/]?= .*|\(.*\)|\+\+);$")
HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                    r"|'(?:\\.|[^'\\\n])'"
                    r"|^[ \t]*#[^\n]*(?:\\\n[^\n]*)*|\b(?:assert|static_assert)\([^;]*;",
                    re.S | re.M)


@dataclass(frozen=True)
class Mutant:
    path: str
    line: int  # from 1
    kind: str
    begin: int  # bytes of the file's text that are replaced
    end: int
    text: str

    def apply(self, source: str) -> str:
        return source[: self.begin] + self.text + source[self.end :]


def visible(source: str) -> str:
    """The source with comments, strings, directives and assertions blanked, place by place."""
    return HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


def closing(text: str, begin: int) -> int:
    """The place of the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    raise ValueError("a bracket is not closed")


def mutants_of(path: str, source: str) -> list:
    """Every mutant of a file, in order of place."""
    seen = visible(source)
    found = []

    def add(kind, begin, end, text):
        found.append(Mutant(path, seen.count("\n", 0, begin) + 1, kind, begin, end, text))

    for m in OPERATOR.finditer(seen):
        kind, new = TWIN[m.group()]
        before, behind = source[: m.start()].rstrip()[-1:], source[m.end() :].lstrip()[:1]
        if before not in '(,="' and behind != '"':  # binary, and of no string
            add(kind, m.start(), m.end(), new)
    for m in NUMBER.finditer(seen):
        add("constant", m.start(), m.end(), str(int(m.group(), 10) + 1))
    for m in CONDITION.finditer(seen):
        end = closing(seen, m.end() - 1)
        inner = source[m.end() : end]
        if ";" not in inner and " = " not in inner:  # no declaration
            add("condition", m.end(), end, f"!({inner})")
    place = 0
    for line in seen.splitlines(keepends=True):
        if STATEMENT.match(line.rstrip("\n")):
            indent = len(line) - len(line.lstrip())
            add("statement", place + indent, place + len(line.rstrip("\n")), ";")
        place += len(line)
    return sorted(found, key=lambda m: (m.begin, m.end))


def all_mutants(root: Path) -> list:
    """Every mutant of sim/, in order of path and place."""
    found = []
    for path in sorted((root / "sim").rglob("*.cpp")):
        if path.name != "main.cpp":
            found += mutants_of(path.relative_to(root).as_posix(), path.read_text())
    return found
