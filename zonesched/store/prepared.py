"""Statements that are compiled once and run on the driver's own cursor; a boot uses hardly any others.

SQLAlchemy takes several times as long to build a statement, find it in its cache and wrap its result as the
database takes to run it. A prepared statement is written once, with `bindparam` for values and `one_of` for
lists, and returns named tuples. It raises SQLAlchemy's errors, as `execute` does.
"""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler


class TextList(sa.TypeDecorator[Sequence[str]]):
    """List of texts as one parameter: an array for PostgreSQL, JSON for SQLite."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        array = sa.ARRAY(sa.Text) if dialect.name == "postgresql" else sa.Text()
        return dialect.type_descriptor(array)

    def process_bind_param(self, value: Sequence[str] | None, dialect: Dialect) -> Any:
        texts = list(value or ())
        return texts if dialect.name == "postgresql" else orjson.dumps(texts).decode()


class one_of(sa.ColumnElement[bool]):  # noqa: N801 - reads like SQLAlchemy's own in_
    """Condition: a column equals one of the texts of a list parameter of any length."""

    inherit_cache = False
    type = sa.Boolean()
    # Else SQLAlchemy would compare it with 1, which prevents the use of an index.
    _is_implicitly_boolean = True

    def __init__(self, column: sa.ColumnElement[Any], parameter: str) -> None:
        self.column = column
        self.values = sa.bindparam(parameter, type_=TextList())


@compiles(one_of, "sqlite")
def _one_of_sqlite(element: one_of, compiler: SQLCompiler, **kw: Any) -> str:
    column, values = compiler.process(element.column, **kw), compiler.process(element.values, **kw)
    # Both parts come from SQLAlchemy's compiler: a column's name and a parameter.
    return f"{column} IN (SELECT value FROM json_each({values}))"  # nosec B608


@compiles(one_of, "postgresql")
def _one_of_postgresql(element: one_of, compiler: SQLCompiler, **kw: Any) -> str:
    column, values = compiler.process(element.column, **kw), compiler.process(element.values, **kw)
    return f"{column} = ANY({values})"


def is_in(column: sa.ColumnElement[Any], members: Iterable[enum.Enum]) -> sa.ColumnElement[bool]:
    """Condition: a column has the value of one of these members of an enumeration."""
    return sa.or_(*[column == value for value in sorted(member.value for member in members)])


@dataclass(frozen=True)
class _Form:
    """Statement compiled for one dialect. `arrange` turns values by name into the driver's parameters."""

    text: str
    constants: Mapping[str, Any]
    processors: Mapping[str, Callable[[Any], Any]]
    arrange: Callable[[Mapping[str, Any]], Any]
    make_row: Callable[[Any], Any]

    def parameters(self, values: Mapping[str, Any]) -> Any:
        if self.processors:
            changed = {name: fn(values[name]) for name, fn in self.processors.items() if name in values}
            values = {**values, **changed}
        if self.constants:
            values = {**self.constants, **values}
        return self.arrange(values)


class Prepared:
    """One statement; every parameter is given by its name each time."""

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._forms: dict[str, _Form] = {}

    def all(self, tx: Connection, **values: Any) -> list[Any]:
        """Return all rows."""
        form = self._form(tx.dialect)
        cursor = self._run(tx, form, "execute", form.parameters(values))
        return list(map(form.make_row, cursor.fetchall()))

    def first(self, tx: Connection, **values: Any) -> Any:
        """Return the first row; None if there is none."""
        found = self.all(tx, **values)
        return found[0] if found else None

    def run(self, tx: Connection, **values: Any) -> int:
        """Return the number of rows written."""
        form = self._form(tx.dialect)
        return int(self._run(tx, form, "execute", form.parameters(values)).rowcount)

    def run_many(self, tx: Connection, rows: Sequence[Mapping[str, Any]], **shared: Any) -> int:
        """Run once for each of `rows`, each with the `shared` values; return the number of rows written."""
        if not rows:
            return 0
        form = self._form(tx.dialect)
        many = list(map(form.parameters, [{**row, **shared} for row in rows] if shared else rows))
        return int(self._run(tx, form, "executemany", many).rowcount)

    def _run(self, tx: Connection, form: _Form, how: str, parameters: Any) -> Any:
        return _on_cursor(tx, how, form.text, parameters)

    def _form(self, dialect: Dialect) -> _Form:
        found = self._forms.get(dialect.name)
        if found is None:
            found = self._forms[dialect.name] = _compile(self._statement, dialect)
        return found


def run_text(tx: Connection, text: str) -> None:
    """Run SQL text without parameters."""
    _on_cursor(tx, "execute", text, ())


def _on_cursor(tx: Connection, how: str, text: str, parameters: Any) -> Any:
    dialect: Any = tx.dialect
    cursor = tx.connection.cursor()
    try:
        getattr(cursor, how)(text, parameters)
    except dialect.loaded_dbapi.Error as error:
        if dialect.is_disconnect(error, tx.connection.dbapi_connection, cursor):
            # The pool must not hand out this connection again.
            tx.invalidate(error)
        base = dialect.loaded_dbapi.Error
        raise DBAPIError.instance(text, None, error, base, hide_parameters=True, dialect=dialect) from error
    return cursor


def _compile(statement: Any, dialect: Dialect) -> _Form:
    compiled = statement.compile(dialect=dialect)
    processors = {
        name: processor
        for name, bind in compiled.binds.items()
        # The driver returns floats: a second conversion would cost time for each of a thousand rows.
        if not isinstance(bind.type, sa.Float)
        and (processor := bind.type.dialect_impl(dialect).bind_processor(dialect)) is not None
    }
    constants = {
        name: processors[name](bind.value) if name in processors else bind.value
        for name, bind in compiled.binds.items()
        if not bind.required
    }
    columns = statement.exported_columns if statement.is_select or statement.is_dml else ()
    names = [column.key for column in columns] if columns else []
    row: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    return _Form(
        text=str(compiled),
        constants=constants,
        processors={name: fn for name, fn in processors.items() if name not in constants},
        arrange=_in_order(compiled.positiontup) if compiled.positional else dict,
        make_row=row._make,
    )


def _in_order(names: Sequence[str] | None) -> Callable[[Mapping[str, Any]], Any]:
    match names or ():
        case ():
            return lambda values: ()
        case (name,):
            return lambda values: (values[name],)
        case several:
            return itemgetter(*several)
