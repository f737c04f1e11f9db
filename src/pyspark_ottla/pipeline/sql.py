"""What can be said of SQL without Spark: whether it parses, what it reads, which columns it gives.

Spark has the last word: this reads its dialect with sqlglot, which needs no JVM and is not quite
Spark's own parser. So `check` reports what is found here, and `run` leaves SQL to Spark itself.

Rules kept here:
1. Nothing is called wrong that Spark might take: where columns cannot be known for sure (a
   generator, a star with exceptions, a pivot), they are unknown (None), and nothing is said about
   them.
2. Names are compared without regard to case, as Spark does.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from pyspark_ottla.pipeline.document import Text

DIALECT = "spark"


class Streaming(Databricks):
    """Spark's SQL where `window` is a function first of all, and `a:b` a field of a variant.

    Used where the plain dialect fails: it stumbles over `GROUP BY window(at, '1 minute')`.
    """

    class Tokenizer(Databricks.Tokenizer):
        """Without the keyword of named windows, which streams cannot have."""

        KEYWORDS: ClassVar = {
            text: token for text, token in Databricks.Tokenizer.KEYWORDS.items() if text != "WINDOW"
        }


GENERATED = frozenset({"window", "session_window"})
"""Columns that Spark makes when rows are grouped by a function of that name."""

Columns = tuple[str, ...] | None
"""The names of columns, in order; None where they are not known."""

# It logs what it merely tolerates; a check reports problems, and nothing else.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


class WrongSqlError(Exception):
    """SQL that does not parse, with the line (of the file) and what is wrong."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class SqlName:
    """A table or a column that some SQL names."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Query:
    """What a SELECT says."""

    tables: tuple[SqlName, ...]
    columns: Columns
    unknown: tuple[tuple[SqlName, tuple[str, ...]], ...]
    """Columns that none of the tables has, each with those that there are."""


def read_query(sql: Text, known: Mapping[str, Columns]) -> Query:
    """Look into a SELECT; `known` has the columns of the tables that it may read."""
    tree = _parse(sql, sql)
    if not isinstance(tree, exp.Query):
        raise WrongSqlError(sql.line, "a step is one SELECT")
    columns_of = {name.lower(): columns for name, columns in known.items()}
    given: dict[int, Columns] = {}
    tables: list[SqlName] = []
    unknown: list[tuple[SqlName, tuple[str, ...]]] = []
    result: Columns = None
    for scope in traverse_scope(tree):
        available = _available(scope, columns_of, given)
        tables += [
            SqlName(source.name, _line(source, sql))
            for source in scope.sources.values()
            if isinstance(source, exp.Table) and _is_view(source)
        ]
        if available is not None:
            unknown += [
                (SqlName(column.name, _line(column, sql)), tuple(dict.fromkeys(available)))
                for column in _unknown_columns(scope, available, columns_of, given)
            ]
        result = given[id(scope.expression)] = _output(scope, columns_of, given)
    return Query(tuple(tables), result, tuple(unknown))


def expression_columns(text: Text) -> tuple[str, ...]:
    """The columns that an expression reads; WrongSqlError if it does not parse, or is not one."""
    tree = _parse(text, Text(f"SELECT {text}", text.line))
    if not isinstance(tree, exp.Select) or len(tree.selects) != 1 or tree.is_star:
        raise WrongSqlError(text.line, "it must be one expression")
    return tuple(column.name for column in tree.find_all(exp.Column) if not column.table)


def schema_columns(schema: Text) -> dict[str, str]:
    """Names and types of a schema such as `id BIGINT, at TIMESTAMP NOT NULL`."""
    columns: dict[str, str] = {}
    for column in _fields(schema) or _columns_of_table(schema):
        if column.kind is None:
            raise WrongSqlError(schema.line, f"the column {column.name} has no type")
        if same_name(column.name, tuple(columns)):
            raise WrongSqlError(schema.line, f"the column {column.name} is a duplicate")
        columns[column.name] = str(column.kind.sql(dialect=DIALECT))
    if not columns:
        raise WrongSqlError(schema.line, "there is no column in it")
    return columns


def _fields(schema: Text) -> list[exp.ColumnDef]:
    """The columns as fields of a struct, among which any name may be (`like`, `check`), and colons;
    none where they do not parse as such.
    """
    try:
        tree = sqlglot.parse_one(f"SELECT CAST(NULL AS STRUCT<{schema}>)", dialect=Spark)
    except SqlglotError:
        return []
    cast = tree.find(exp.Cast)
    fields = [] if cast is None else cast.to.expressions
    is_right = all(isinstance(field, exp.ColumnDef) for field in fields)
    return fields if is_right and ",," not in schema.replace(" ", "") else []


def _columns_of_table(schema: Text) -> list[exp.ColumnDef]:
    """The columns as those of a table, where a mistake is found at its place."""
    tree = _parse(schema, Text(f"CREATE TABLE t ({schema})", schema.line))
    for part in tree.this.expressions if isinstance(tree.this, exp.Schema) else ():
        if isinstance(part, exp.Identifier):
            raise WrongSqlError(schema.line, f"the column {part.name} has no type")
    return [each for each in tree.find_all(exp.ColumnDef) if isinstance(each.parent, exp.Schema)]


def same_name(name: str, columns: tuple[str, ...]) -> bool:
    """Whether one of the columns has the name, in any case."""
    return name.lower() in {column.lower() for column in columns}


def _parse(shown: Text, sql: Text) -> exp.Expression:
    try:
        try:
            trees = sqlglot.parse(sql, dialect=Spark)
        except SqlglotError:
            trees = sqlglot.parse(sql, dialect=Streaming)
    except SqlglotError as wrong:
        details = getattr(wrong, "errors", None) or [{}]
        line = shown.line + int(details[0].get("line") or 1) - 1
        text = str(details[0].get("description") or str(wrong).splitlines()[0]).rstrip(".")
        near = str(details[0].get("highlight") or "").strip()
        raise WrongSqlError(line, f"{text}, at {near!r}" if near else text) from None
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1:
        raise WrongSqlError(shown.line, "it must be one statement")
    tree = found[0]
    assert isinstance(tree, exp.Expression)
    if isinstance(tree, exp.Command):
        raise WrongSqlError(shown.line, "it does not parse")
    return tree


def _is_view(table: exp.Table) -> bool:
    """Whether it can be a source or a step: no function such as range(5), no name with a dot."""
    return isinstance(table.this, exp.Identifier) and not table.db


def _line(node: exp.Expression, sql: Text) -> int:
    for part in node.walk():
        if "line" in part.meta:
            return sql.line + int(part.meta["line"]) - 1
    return sql.line


def _source_columns(
    source: exp.Expression | Scope, known: Mapping[str, Columns], given: Mapping[int, Columns]
) -> Columns:
    if isinstance(source, Scope):
        return given.get(id(source.expression))
    return known.get(source.name.lower())


def _available(
    scope: Scope, known: Mapping[str, Columns], given: Mapping[int, Columns]
) -> list[str] | None:
    """All columns that a SELECT may name; None where one of its tables is not known."""
    tree = scope.expression
    generators = (exp.Lateral, exp.Pivot, exp.Unnest, exp.TableFromRows, exp.Values)
    if not isinstance(tree, exp.Select) or scope.is_correlated_subquery or scope.parent is not None:
        # What an inner query may name also depends on the outer one: Spark looks at those.
        return None
    if not scope.sources or any(True for _ in tree.find_all(*generators)):
        return None
    names = [select.alias for select in tree.selects if select.alias]
    for source in scope.sources.values():
        columns = _source_columns(source, known, given)
        if columns is None:
            return None
        names += columns
    return names


def _unknown_columns(
    scope: Scope, available: list[str], known: Mapping[str, Columns], given: Mapping[int, Columns]
) -> Iterator[exp.Column]:
    names = {name.lower() for name in available} | GENERATED
    tables = {alias.lower(): source for alias, source in scope.sources.items()}
    for column in scope.columns:
        of = column.table.lower()
        if column.name == "*" or column.db or of in names:
            continue  # A field of a struct, perhaps, which only Spark can tell.
        if not of:
            there = names
        elif of in tables:
            there = {name.lower() for name in _source_columns(tables[of], known, given) or ()}
        else:
            continue
        if column.name.lower() not in there:
            yield column


def _output(scope: Scope, known: Mapping[str, Columns], given: Mapping[int, Columns]) -> Columns:
    tree = scope.expression
    if isinstance(tree, exp.SetOperation):
        return given.get(id(tree.left.unnest()))
    if not isinstance(tree, exp.Select):
        return None
    names: list[str] = []
    for select in tree.selects:
        if not select.is_star:
            if isinstance(select, (exp.Explode, exp.Posexplode, exp.Inline)):
                return None
            names.append(select.alias_or_name)
            continue
        star = select.this if isinstance(select, exp.Column) else select
        if isinstance(star, exp.Star) and any(star.args.values()):
            return None
        wanted = select.table if isinstance(select, exp.Column) else ""
        if any(True for _ in tree.find_all(exp.Lateral, exp.Pivot)) or (
            len(scope.sources) > 1 and not wanted
        ):
            return None
        for alias, source in scope.sources.items():
            if not wanted or alias.lower() == wanted.lower():
                columns = _source_columns(source, known, given)
                if columns is None:
                    return None
                names += columns
    # An unnamed expression gets a name from Spark that only Spark knows.
    return None if "" in names else tuple(names)
