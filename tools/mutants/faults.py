"""Small faults in Python: one edit of the source each, found in its syntax tree."""

import ast
import re
from typing import NamedTuple


class Fault(NamedTuple):
    """Characters `begin` to `end` of the file become `text`."""

    path: str
    line: int
    kind: str
    begin: int
    end: int
    text: str
    # A change that often cannot be observed: a limit of 100 that is 200, a deadline met exactly.
    is_doubtful: bool = False

    @property
    def name(self) -> str:
        """Enough to ask for it again."""
        return f"{self.path}:{self.line}:{self.kind}:{self.begin}"

    def put_into(self, source: str) -> str:
        return source[: self.begin] + self.text + source[self.end :]


_SWAPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_BOUNDARIES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# Constants from here on are sizes and limits that somebody chose.
_CHOSEN = 10
# Logs, metrics and traces are read by people; faults in them are for other tests.
_TELLING = re.compile(
    r"(_?log|selection_log|logs|metrics)\.|_?[A-Z][A-Z_]*(\[.*\])?(\.labels\(.*\))?\.(inc|dec|set|observe)\("
)
# Lets other tasks run: without it only their order and their waits differ.
_TURN = "asyncio.sleep(0)"
# `zip(…, strict=True)` states what is so already.
_ASSERTED = frozenset({"strict"})


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source
        # Columns of the syntax tree are bytes in UTF-8.
        self._lines = [line.encode() for line in source.splitlines(keepends=True)]
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line.decode()))
        self.found: list[Fault] = []

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def _span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno or 0, node.end_col_offset or 0)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        begin, end = self._span(node)
        return self._source[begin:end]

    def _put(self, node: ast.expr | ast.stmt, kind: str, text: str, is_doubtful: bool = False) -> None:
        begin, end = self._span(node)
        self.found.append(Fault(self._path, node.lineno, kind, begin, end, text, is_doubtful))

    # What is passed over: annotations, docstrings, what is only told

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            if not (isinstance(statement, ast.Assign) and "__slots__" in self._text(statement)):
                self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
        if len(body) > 1 and not isinstance(body[0], ast.Return) and not _yields(node):
            begin = self._offset(body[0].lineno, body[0].col_offset)
            self.found.append(Fault(self._path, body[0].lineno, "return early", begin, begin, "return None; "))
        for statement in body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the visitor's name

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        pass

    visit_ImportFrom = visit_Import  # noqa: N815 - the visitor's name

    def _is_told(self, statement: ast.stmt) -> bool:
        text = self._text(statement)
        return isinstance(statement, ast.Expr) and (bool(_TELLING.match(text)) or text == f"await {_TURN}")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or self._is_told(node):
            return
        if isinstance(node.value, ast.Call | ast.Await):
            self._put(node, "drop statement", "pass")
        self.generic_visit(node)

    # Faults

    def visit_If(self, node: ast.If) -> None:
        # A condition on which nothing depends but what is told, or whose turn it is, is a part of that.
        if "TYPE_CHECKING" not in self._text(node.test) and not all(map(self._is_told, node.body + node.orelse)):
            self._negate(node.test)
            self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        # A comparison is swapped and a `not` removed by themselves.
        if not isinstance(test, ast.Compare | ast.UnaryOp):
            self._put(test, "negate", f"(not ({self._text(test)}))")

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            right = node.comparators[0]
            begin = self._offset(node.left.end_lineno or 0, node.left.end_col_offset or 0)
            end = self._offset(right.lineno, right.col_offset)
            between = self._source[begin:end]
            sign = _SIGNS[type(node.ops[0])]
            if between.count(sign) == 1:
                text = between.replace(sign, _SWAPPED[type(node.ops[0])])
                is_doubtful = isinstance(node.ops[0], _BOUNDARIES)
                self.found.append(Fault(self._path, node.lineno, "compare", begin, end, text, is_doubtful))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            begin = self._offset(left.end_lineno or 0, left.end_col_offset or 0)
            end = self._offset(right.lineno, right.col_offset)
            if self._source[begin:end].count(sign) == 1:
                text = self._source[begin:end].replace(sign, other)
                self.found.append(Fault(self._path, right.lineno, f"{sign} to {other}", begin, end, text))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._put(node, "remove not", f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _ASSERTED:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._put(node, "constant", str(not node.value))
        elif isinstance(node.value, int | float):
            is_chosen = abs(node.value) >= _CHOSEN or isinstance(node.value, float)
            # One more than a thousand is no fault; twice as much is, where the number means something.
            change = "* 2" if is_chosen and node.value else "+ 1"
            self._put(node, "constant", f"({self._text(node)} {change})", is_chosen)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Return(self, node: ast.Return) -> None:
        # None for False is seldom a difference; True for False, which is, is a fault of its own.
        is_nothing = isinstance(node.value, ast.Constant) and node.value.value in (None, False)
        if node.value is not None and not is_nothing:
            self._put(node, "return None", "return None")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break | ast.Continue) -> None:
        self._put(node, "drop statement", "pass")

    visit_Continue = visit_Break  # noqa: N815 - the visitor's name

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._put(node, "drop statement", "pass")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._put(node, "drop statement", "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript) and not _is_handed_in(node.value):
            self._put(node, "drop statement", "pass")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _TELLING.match(self._text(node)):
            return
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in _ASSERTED:
                begin, end = self._span(keyword)
                after = self._source[end:]
                # With the comma that follows, or the one before.
                if after.lstrip().startswith(","):
                    end += len(after) - len(after.lstrip()) + 1
                self.found.append(Fault(self._path, keyword.lineno, "drop keyword", begin, end, ""))
        self.generic_visit(node)


_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _is_handed_in(value: ast.expr) -> bool:
    """`self._store = store` in a constructor: without it nothing runs at all."""
    return isinstance(value, ast.Name | ast.Attribute)


def _yields(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


def python_faults(path: str, source: str) -> list[Fault]:
    """Also such as do not compile: that is looked at when one is drawn."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.found


def is_fault(fault: Fault, source: str) -> bool:
    """Whether it compiles, and to something else."""
    try:
        return ast.dump(ast.parse(fault.put_into(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False
