"""The house's rules, held by reading its sources: who may import whom, who writes what, how big things get.

Each import contract is seen failing once: a copy of the tree with one violation of each must break each of them,
and name the planted line. A contract that cannot fail would hold nothing.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("sandboxes", "workspaces", "ops", "clients")
MODULE_LINES, FUNCTION_LINES = 500, 60
VAGUE = re.compile(r"(^|_)(manager|helper|helpers|utils|util|common|misc)(_|\.|$)")

#: contract -> (module that gets the line, the line, the import it must be reported as)
PLANTS = {
    "downstairs-looks-not-up": ("sandboxes.planted", "import workspaces.actors", "workspaces.actors"),
    "nobody-knows-the-machine-room": ("workspaces.planted", "import ops.instance", "ops.instance"),
    "one-hatch": ("workspaces.planted_b", "import sandboxes.linux.names", "sandboxes.linux.names"),
    "host-side-knows-no-web": ("sandboxes.host.planted", "import django.db", "django"),
    "driver-knows-no-host": ("sandboxes.linux.planted", "import sandboxes.drivers.base", "sandboxes.drivers.base"),
    "guest-is-apart": ("sandboxes.guest.agent.planted", "import sandboxes.linux.names", "sandboxes.linux.names"),
    "egressd-is-apart": ("sandboxes.egress.planted", "import sandboxes.guest.protocol", "sandboxes.guest.protocol"),
    "hostd-reaches-not-into-egressd": ("sandboxes.host.planted_b", "import sandboxes.egress.daemon",
                                       "sandboxes.egress.daemon"),
    "pure-waits-for-nothing": ("sandboxes.lifecycle", "import asyncio", "asyncio"),
    "machine-room-knows-no-django": ("ops.planted", "import django.conf", "django"),
    "client-knows-the-contract-alone": ("clients.python.berth_client.planted", "import workspaces.actors",
                                        "workspaces.actors"),
}


def contracts() -> list[str]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [contract["id"] for contract in config["tool"]["importlinter"]["contracts"]]


def lint(tree: Path) -> str:
    done = subprocess.run([str(Path(sys.executable).parent / "lint-imports"), "--no-cache"], cwd=tree,
                          capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def broken_tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy of the tree with one violation of each contract."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", tree)
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, tree / floor, ignore=shutil.ignore_patterns("__pycache__"))
    for module, line, _ in PLANTS.values():
        with (tree / (module.replace(".", "/") + ".py")).open("a") as file:
            file.write(f"\n{line}\n")
    return lint(tree)


def test_every_contract_holds_in_this_tree() -> None:
    said = lint(ROOT)
    assert f"Contracts: {len(contracts())} kept, 0 broken" in said, said


def test_every_contract_has_a_planted_violation() -> None:
    assert set(PLANTS) == set(contracts())


@pytest.mark.parametrize("contract", sorted(PLANTS))
def test_a_planted_violation_breaks_its_contract(contract: str, broken_tree: str) -> None:
    module, _, imported = PLANTS[contract]
    assert f"Contracts: 0 kept, {len(PLANTS)} broken" in broken_tree, broken_tree
    reported = rf"-\s+{re.escape(module)} -> {re.escape(imported)}\b"
    assert re.search(reported, broken_tree), broken_tree


def test_the_guests_agent_needs_nothing_but_the_standard_library() -> None:
    """It runs in a guest with an interpreter of its own and no packages; two pure files of ours travel with it."""
    allowed = set(sys.stdlib_module_names)
    ours = ("sandboxes.guest.agent", "sandboxes.guest.protocol", "sandboxes.errors")
    travelling = [*sources("sandboxes/guest/agent"), ROOT / "sandboxes/guest/protocol.py", ROOT / "sandboxes/errors.py"]
    foreign = [f"{path.relative_to(ROOT)}: {name}" for path in travelling for name in imports(path)
               if name.split(".")[0] not in allowed and not name.startswith(ours)]
    assert foreign == []


def test_the_client_needs_nothing_but_what_its_own_distribution_names() -> None:
    """It is installed where nothing of ours is; the list of what it needs is its own pyproject's."""
    named = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())["project"]["dependencies"]
    needed = {re.split(r"[^a-z0-9_-]", requirement)[0] for requirement in named}
    imported = {name.split(".")[0] for path in sources("clients/python/berth_client") for name in imports(path)}
    assert imported - set(sys.stdlib_module_names) - {"berth_client"} == needed == {"httpx", "websockets"}


def sources(*places: str) -> list[Path]:
    """Every Python file below these folders (of the whole tree when none is named)."""
    found = [path for place in places or (*FLOORS, "tests") for path in (ROOT / place).rglob("*.py")]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def writers(pattern: str, *places: str) -> set[str]:
    """Files that hold a line of code (no comment) of this shape."""
    shape = re.compile(pattern)
    return {str(path.relative_to(ROOT)) for path in sources(*places)
            if any(shape.search(line) for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))}


def test_only_the_plan_runner_writes_a_sandboxs_phase() -> None:
    assigned = r"(\bsandbox|\brow|\bself\.sandbox)\.phase\s*=[^=]|\bupdate\([^)]*\bphase="
    assert writers(assigned, "sandboxes/plans", "sandboxes/machines.py", "workspaces") <= {"sandboxes/plans/runner.py"}


def test_only_services_writes_intent() -> None:
    assigned = r"\.intent\s*=[^=]|\bupdate\([^)]*\bintent="
    assert writers(assigned, "workspaces", "sandboxes") <= {"workspaces/services.py"}


def test_only_the_error_map_knows_status_numbers_of_problems() -> None:
    """Elsewhere a refusal is a code; a number beside a problem would be a second truth."""
    numbered = r"Problem\([^)]*\b[45]\d\d\b|status(_code)?\s*=\s*[45]\d\d\b"
    assert writers(numbered, "workspaces") <= {"workspaces/api/errors.py"}


def test_only_two_files_of_downstairs_start_processes_on_the_host() -> None:
    """`processes.py` runs programs to their end, `spawner.py` bodies that outlive hostd. The guest is another world."""
    started = (r"\bsubprocess\.(run|Popen|call|check_\w+)\(|create_subprocess_\w+\("
               r"|\bos\.(system|popen|posix_spawn\w*)\(")
    host_side = {name for name in writers(started, "sandboxes") if not name.startswith("sandboxes/guest/agent/")}
    # Never on a workspace's path: what it leaves out is what is measured.
    floor_of_the_bench = {"sandboxes/drivers/qemu/bare.py"}
    assert host_side - floor_of_the_bench <= {"sandboxes/linux/processes.py", "sandboxes/linux/spawner.py"}
    assert writers(started, "workspaces") == set()


def test_every_file_opens_by_saying_where_it_stands() -> None:
    silent = [str(path.relative_to(ROOT)) for path in sources()
              if path.stat().st_size and "migrations" not in path.parts
              and not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_module_outgrows_its_reader() -> None:
    long = {str(path.relative_to(ROOT)): lines for path in sources()
            if (lines := len(path.read_text().splitlines())) > MODULE_LINES}
    assert long == {}


def test_no_function_outgrows_a_screen() -> None:
    long = [f"{path.relative_to(ROOT)}:{node.lineno} {node.name}" for path in sources()
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES]
    assert long == []


def test_files_are_named_for_what_they_hold() -> None:
    assert [str(path.relative_to(ROOT)) for path in sources() if VAGUE.search(path.name)] == []


def test_nothing_generated_is_kept_in_version_control() -> None:
    if not (ROOT / ".git").exists():
        pytest.fail("this test reads the repository's index; run it in a clone")
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    generated = re.compile(r"(^|/)(node_modules|dist|__pycache__|staticfiles|\.venv|\.mypy_cache)/"
                           r"|\.(pyc|sqlite3|log)$")
    assert [name for name in kept if generated.search(name)] == []


def test_no_check_is_switched_off() -> None:
    """A skipped test or a note to come back later is work that nobody sees."""
    marks = r"pytest\.mark\.(skip|skipif|xfail)|pytest\.skip\(|\b(TODO|FIXME|XXX)\b"
    assert writers(marks) <= {"tests/test_architecture.py"}
