"""Mutants of sim/: one small change each to what a .cpp computes.

Kinds: relational (< and <= swapped, == and !=, ...), arithmetic (+ and -, * and /), logical (&& and
||), constant (an integer one larger), condition (an if negated), statement (one left out). Headers
are left alone: what they compute is used all over, and a mutant would compile half the program.

A mutant is written plainly (`edit`), or behind a switch that is asked while the program runs
(`switched`): many of the second kind fit into one build.
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
KEYWORD = re.compile(r"\b(if|for|while|switch) $")
WORD = re.compile(r"\b(return|throw|case|else|do)$")  # ends before an expression
HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                    r"|'(?:\\.|[^'\\\n])'"
                    r"|^[ \t]*#[^\n]*(?:\\\n[^\n]*)*|\b(?:assert|static_assert)\([^;]*;"
                    r"|[\w.>\]-]*(?<=[.>])reserve\([^;]*;",
                    re.S | re.M)


@dataclass(frozen=True)
class Mutant:
    path: str
    line: int  # from 1
    kind: str
    begin: int  # bytes of the file's text that are replaced
    end: int
    text: str

    def edit(self):
        """(begin, end, text): what to replace."""
        return self.begin, self.end, self.text

    def switched(self, source: str, number: int):
        """The same behind switch `number`, in as many lines; None where that cannot be said."""
        on = f"::mutation::here({number})"
        whole = source[self.begin : self.end]
        if self.kind == "constant":
            return self.begin, self.end, f"({on} ? {self.text} : {whole})"
        if self.kind == "condition":
            return self.begin, self.end, f"{on} != static_cast<bool>({whole})"
        if self.kind == "statement":
            return self.begin, self.end, f"{{ if (!{on}) {{ {whole} }} }}"
        begin, end = expression(visible(source), self.begin, self.end)
        whole = source[begin:end]
        changed = source[begin : self.begin] + self.text + source[self.end : end]
        if "//" in whole or 'R"' in whole:
            return None
        return begin, end, f"({on} ? ({' '.join(changed.splitlines())}) : ({whole}))"


def visible(source: str) -> str:
    """The source with comments, strings, directives, assertions and what only reserves memory
    blanked, place by place."""
    return HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


def closing(text: str, begin: int) -> int:
    """The place of the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    raise ValueError("a bracket is not closed")


def opening(text: str, end: int) -> int:
    """The place of the bracket that the one at `end` closes."""
    depth = 0
    for i in range(end, -1, -1):
        depth += (text[i] in ")]}") - (text[i] in "([{")
        if depth == 0:
            return i
    raise ValueError("a bracket is not opened")


def expression(text: str, begin: int, end: int):
    """[begin, end) of the expression around the operator at [begin, end), which may be an
    assignment: up to brackets, commas, `?` and `:`. What it gets wrong does not compile."""
    left = begin
    while left > 0:
        c = text[left - 1]
        if c in "([{,;?" or (c == "}" and text[left] == "\n"):
            break
        if c == ":" and text[left] != ":" and text[left - 2] != ":":
            break
        if c == "=" and text[left - 2] in " +-*/" and text[left] in " \n":
            break
        if WORD.search(text, 0, left) and not text[left].isalnum():
            break
        if c in ")]}":
            inner = opening(text, left - 1)
            if c == ")" and KEYWORD.search(text, max(0, inner - 8), inner):
                break
            left = inner
            continue
        left -= 1
    assigns = text[begin:end] in ("+=", "-=")
    right, depth = end, 0
    while right < len(text):
        c = text[right]
        alone = c == ":" and ":" not in text[right - 1] + text[right + 1]
        if depth == 0 and (c in ")]};" or (not assigns and (c in ",?" or alone))):
            break
        depth += (c in "([{") - (c in ")]}")
        right += 1
    return begin - len(text[left:begin].lstrip()), end + len(text[end:right].rstrip())


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
