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
from functools import cached_property
from operator import itemgetter
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class List(sa.TypeDecorator[Sequence[Any]]):
    """List of texts or of numbers as one parameter: JSON for SQLite, an array for PostgreSQL.

    The array is written here: the driver takes a hundred times as long to convert a list.
    """

    impl = sa.Text
    cache_ok = True

    def __init__(self, of: type[sa.types.TypeEngine[Any]] = sa.Text) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        # The parameter itself has the type of an array, else PostgreSQL would convert it again for each row.
        return dialect.type_descriptor(sa.ARRAY(self.of) if dialect.name == "postgresql" else sa.Text())

    def bind_processor(self, dialect: Dialect) -> Callable[[Sequence[Any] | None], str]:
        return _array_text if dialect.name == "postgresql" else _json_text


def _json_text(values: Sequence[Any] | None) -> str:
    return orjson.dumps(list(values or ())).decode()


def _array_text(values: Sequence[Any] | None) -> str:
    text = _json_text(values)
    if "\\" in text:
        # JSON's escapes for control characters mean others in an array.
        text = "[" + ",".join(map(_quoted, values or ())) + "]"
    return "{" + text[1:-1] + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class one_of(sa.ColumnElement[bool]):  # noqa: N801 - reads like SQLAlchemy's own in_
    """Condition: a column equals one of the texts of a list parameter of any length."""

    inherit_cache = False
    type = sa.Boolean()
    # Else SQLAlchemy would compare it with 1, which prevents the use of an index.
    _is_implicitly_boolean = True

    def __init__(self, column: sa.ColumnElement[Any], parameter: str) -> None:
        self.column = column
        self.values = sa.bindparam(parameter, type_=List())


@compiles(one_of, "sqlite")
def _one_of_sqlite(element: one_of, compiler: SQLCompiler, **kw: Any) -> str:
    column, values = compiler.process(element.column, **kw), compiler.process(element.values, **kw)
    # Both parts come from SQLAlchemy's compiler: a column's name and a parameter.
    return f"{column} IN (SELECT value FROM json_each({values}))"  # nosec B608


@compiles(one_of, "postgresql")
def _one_of_postgresql(element: one_of, compiler: SQLCompiler, **kw: Any) -> str:
    column, values = compiler.process(element.column, **kw), compiler.process(element.values, **kw)
    return f"{column} = ANY({values})"


class unindexed(FunctionElement[str]):  # noqa: N801 - reads like the column
    """A column of text by which SQLite picks no index: it takes any value for one that few rows have."""

    inherit_cache = True
    type = sa.String()


@compiles(unindexed, "sqlite")
def _unindexed_sqlite(element: unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    return f"+{compiler.process(element.clauses, **kw)}"


@compiles(unindexed, "postgresql")
def _unindexed_postgresql(element: unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    return str(compiler.process(element.clauses, **kw))


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

    def parameters_of_many(self, rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any]) -> list[Any]:
        return list(map(self.parameters, [{**row, **shared} for row in rows] if shared else rows))


class Sent:
    """A statement that was sent; `all` and `count` wait for its answer, and for all that was sent with it."""

    def __init__(self, tx: Connection, form: _Form, cursor: Any) -> None:
        self._tx = tx
        self._form = form
        self._cursor = cursor
        # SQLite has answered; while rows are left to be fetched, it cannot commit.
        self._rows = None if _is_server(tx) else cursor.fetchall()

    def all(self) -> list[Any]:
        """Return all rows."""
        self._catch_up()
        rows = self._cursor.fetchall() if self._rows is None else self._rows
        return list(map(self._form.make_row, rows))

    @property
    def count(self) -> int:
        """The number of rows written."""
        self._catch_up()
        return int(self._cursor.rowcount)

    def _catch_up(self) -> None:
        if _is_server(self._tx):
            try:
                self._cursor.catch_up()
            except self._tx.dialect.loaded_dbapi.Error as error:
                raise _as_sqlalchemy(error, self._tx, self._form.text) from error


class Prepared:
    """One statement; every parameter is given by its name each time."""

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._forms: dict[str, _Form] = {}

    def all(self, tx: Connection, **values: Any) -> list[Any]:
        """Return all rows."""
        form = self._form(tx.dialect)
        cursor = _on_cursor(tx, "execute", form.text, form.parameters(values))
        return list(map(form.make_row, cursor.fetchall()))

    def first(self, tx: Connection, **values: Any) -> Any:
        """Return the first row; None if there is none."""
        found = self.all(tx, **values)
        return found[0] if found else None

    def run(self, tx: Connection, **values: Any) -> int:
        """Return the number of rows written."""
        form = self._form(tx.dialect)
        return int(_on_cursor(tx, "execute", form.text, form.parameters(values)).rowcount)

    def run_many(self, tx: Connection, rows: Sequence[Mapping[str, Any]], **shared: Any) -> int:
        """Run once for each of `rows`, each with the `shared` values; return the number of rows written."""
        if not rows:
            return 0
        form = self._form(tx.dialect)
        many = form.parameters_of_many(rows, shared)
        return int(_on_cursor(tx, "executemany", form.text, many).rowcount)

    def send(self, tx: Connection, **values: Any) -> Sent:
        """Run without waiting for PostgreSQL's answer, which is there when `Sent` is asked for it.

        An error is raised where the transaction waits next.
        """
        form = self._form(tx.dialect)
        return Sent(tx, form, _send(tx, "execute", form.text, form.parameters(values)))

    def send_many(self, tx: Connection, rows: Sequence[Mapping[str, Any]], **shared: Any) -> None:
        """Run as `run_many` does, without waiting for PostgreSQL's answer."""
        if not rows:
            return
        if len(rows) > 1 and self._statement.is_insert and _is_server(tx):
            together = orjson.dumps([{**row, **shared} for row in rows]).decode()
            self._of_rows.send(tx, rows=together)
            return
        form = self._form(tx.dialect)
        _send(tx, "executemany", form.text, form.parameters_of_many(rows, shared))

    @cached_property
    def _of_rows(self) -> Prepared:
        """An insert of many rows by one statement, for PostgreSQL."""
        columns = self._statement.table.columns
        text = sa.cast(sa.bindparam("rows", type_=sa.Text), sa.JSON)
        of_json = sa.func.json_to_recordset(text).table_valued(*[sa.column(c.name, c.type) for c in columns])
        rows = of_json.render_derived(with_types=True)
        return Prepared(
            sa.insert(self._statement.table).from_select([c.name for c in columns], sa.select(*rows.c))
        )

    def _form(self, dialect: Dialect) -> _Form:
        found = self._forms.get(dialect.name)
        if found is None:
            found = self._forms[dialect.name] = _compile(self._statement, dialect)
        return found


def run_text(tx: Connection, text: str) -> None:
    """Run SQL text without parameters or rows; PostgreSQL's answer is not waited for."""
    _send(tx, "execute", text, ())


def _send(tx: Connection, how: str, text: str, parameters: Any) -> Any:
    return _on_cursor(tx, _SENDING[how] if _is_server(tx) else how, text, parameters)


_SENDING = {"execute": "send", "executemany": "send_many"}


def _on_cursor(tx: Connection, how: str, text: str, parameters: Any) -> Any:
    # A connection that is known to be closed has no cursors either.
    try:
        cursor = tx.connection.cursor()
        getattr(cursor, how)(text, parameters)
    except tx.dialect.loaded_dbapi.Error as error:
        raise _as_sqlalchemy(error, tx, text) from error
    return cursor


def _is_server(tx: Connection) -> bool:
    return tx.dialect.name == "postgresql"


def _as_sqlalchemy(error: Any, tx: Connection, text: str) -> Exception:
    """Return SQLAlchemy's error for the driver's."""
    dialect: Any = tx.dialect
    base = dialect.loaded_dbapi.Error
    is_lost = dialect.is_disconnect(error, tx.connection.dbapi_connection, None)
    if is_lost:
        # The pool must not hand out this connection again.
        tx.invalidate(error)
    made: Exception = DBAPIError.instance(
        text, None, error, base, hide_parameters=True, connection_invalidated=is_lost, dialect=dialect
    )
    return made


def _compile(statement: Any, dialect: Dialect) -> _Form:
    compiled = statement.compile(dialect=dialect)
    processors = {
        name: processor
        for name, bind in compiled.binds.items()
        # Drivers take floats and booleans as they are; a conversion would cost time for each row.
        if not isinstance(bind.type, sa.Float | sa.Boolean)
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
