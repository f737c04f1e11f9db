"""Small wrong changes to Python source, one at a time: what `make mutate` tries on the tests.

Rules kept here:
1. A mutant is one change at one place: a condition negated, a comparison or operator swapped, a
   number off by one, or a statement dropped (a call, an await, an assignment to an attribute, a
   raise, a return without value, a continue, a break).
2. What no test should notice is not touched: docstrings, annotations, asserts, and log calls.
3. The same source has the same mutants in the same order.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BODIES = ("body", "orelse", "finalbody")
LOGGERS = ("log", "logger")


@dataclass(frozen=True)
class Mutation:
    """A change of a tree, which `apply` makes in place."""

    line: int
    what: str
    apply: Callable[[], None]


@dataclass(frozen=True)
class Mutant:
    """One wrong version of a file."""

    path: str
    line: int
    what: str
    text: str
    """The line as it was."""
    source: str

    @property
    def name(self) -> str:
        """What an entry in the list of equivalent mutants says; lines move, so without a number."""
        return f"{self.path}: {self.what}: {self.text}"


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    lines = source.splitlines()
    for number in range(len(list(mutations(ast.parse(source))))):
        tree = ast.parse(source)
        mutation = list(mutations(tree))[number]
        mutation.apply()
        text = lines[mutation.line - 1].strip()
        yield Mutant(path, mutation.line, mutation.what, text, ast.unparse(tree) + "\n")


def mutations(tree: ast.AST) -> Iterator[Mutation]:
    """All mutations of a tree."""
    for node in _code(tree):
        yield from _of_expression(node)
        for name in BODIES:
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                yield from _drops(statements)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it that runs when the code does."""
    if isinstance(node, ast.Assert) or _is_log_call(node) or _is_docstring(node):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _code(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_log_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    called = node.value.func
    if not isinstance(called, ast.Attribute):
        return False
    owner = called.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.lower().strip("_") in LOGGERS and called.attr in (
        *("debug", "info", "warning", "error", "exception", "critical"),
    )


def _of_expression(node: ast.AST) -> Iterator[Mutation]:
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            yield Mutation(node.test.lineno, "negate condition", lambda: _negate(node))
        case ast.Compare(ops=[only]) if type(only) in COMPARISONS:
            other = COMPARISONS[type(only)]
            what = f"{type(only).__name__} becomes {other.__name__}"
            yield Mutation(node.lineno, what, lambda: _set(node, "ops", [other()]))
        case ast.BoolOp():
            swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            what = f"{type(node.op).__name__} becomes {type(swapped).__name__}"
            yield Mutation(node.lineno, what, lambda: _set(node, "op", swapped))
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            turned = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            what = f"{type(node.op).__name__} becomes {type(turned).__name__}"
            yield Mutation(node.lineno, what, lambda: _set(node, "op", turned))
        case ast.Constant(value=bool(value)):
            yield Mutation(
                node.lineno, f"{value} becomes {not value}", lambda: _set(node, "value", not value)
            )
        case ast.Constant(value=int(number)):
            yield Mutation(
                node.lineno,
                f"{number} becomes {number + 1}",
                lambda: _set(node, "value", number + 1),
            )


def _negate(node: ast.If | ast.While | ast.IfExp) -> None:
    node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)


def _set(node: ast.AST, name: str, value: object) -> None:
    setattr(node, name, value)


def _drops(statements: list[ast.stmt]) -> Iterator[Mutation]:
    for at, statement in enumerate(statements):
        if what := _droppable(statement):
            yield Mutation(
                statement.lineno,
                f"drop {what}",
                lambda at=at, old=statement: statements.__setitem__(  # type: ignore[misc]  # mypy cannot infer defaults
                    at, ast.copy_location(ast.Pass(), old)
                ),
            )


def _droppable(statement: ast.stmt) -> str:
    if _is_log_call(statement):
        return ""
    match statement:
        case ast.Expr(value=ast.Await()):
            return "await"
        case ast.Expr(value=ast.Call()):
            return "call"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return "assignment"
        case ast.AugAssign():
            return "assignment"
        case ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            return type(statement).__name__.lower()
        case ast.Return(value=None):
            return "return"
    return ""
