"""How the package is built: no modules import each other or private names, and each says what it is."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "zarrfuse"
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(module: str) -> Iterator[tuple[str, str]]:
    """(module, name) of all that a module imports of the package, also in functions and for types."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "zarrfuse":
            for each in node.names:
                yield str(node.module), each.name
        elif isinstance(node, ast.Import):
            for each in node.names:
                if each.name.split(".")[0] == "zarrfuse":
                    yield each.name, ""


def imported_modules(module: str) -> set[str]:
    """The modules of the package that a module imports."""
    found = {f"{of}.{name}" if f"{of}.{name}" in MODULES else of for of, name in imports(module)}
    return found - {"zarrfuse"}  # whose version many ask for


def test_no_modules_import_each_other() -> None:
    graph = {module: imported_modules(module) for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize("module", MODULES)
def test_nothing_private_is_imported(module: str) -> None:
    private = [
        name for _, name in imports(module) if name.startswith("_") and name != "__version__"
    ]
    assert private == []


@pytest.mark.parametrize("module", MODULES)
def test_each_module_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[module].read_text()))
