"""`./berth status`: processes with their memory, hosts, workspaces by state. Exit 0 when all of it runs, 1 when
something does not, 3 when nothing was set up here yet.

Reads pid files and asks `manage.py berth_status --json` for what only the database knows.
"""

from __future__ import annotations

import json
from typing import Any

from ops import hostside, pids, prepare, programs
from ops.instance import Instance, from_environment
from ops.roster import STOP_ORDER

MIB = 1024 * 1024
RUNS, NOT_ALL_RUNS, NOT_SET_UP = 0, 1, 3


def status(as_json: bool) -> int:
    instance = from_environment()
    facts = gather(instance)
    print(json.dumps(facts, indent=2) if as_json else as_text(facts))
    if not facts["set_up"]:
        return NOT_SET_UP
    return RUNS if facts["running"] else NOT_ALL_RUNS


def gather(instance: Instance) -> dict[str, Any]:
    processes = [process_facts(instance, name) for name in ("supervisor", *reversed(STOP_ORDER))]
    set_up = prepare.was_set_up(instance)
    database = ask_database(instance) if set_up else {}
    return {"data": str(instance.data), "url": instance.url, "set_up": set_up,
            "running": set_up and all(p["pid"] for p in processes),
            "processes": processes, "machines": machine_facts(instance),
            "hosts": database.get("hosts", []), "workspaces": database.get("workspaces", {}),
            "database_problem": database.get("problem", "")}


def process_facts(instance: Instance, name: str) -> dict[str, Any]:
    process = pids.read(instance.run / f"{name}.pid")
    if process is None:
        return {"name": name, "pid": None, "uptime_s": None, "memory_mib": None}
    return {"name": name, "pid": process.pid, "uptime_s": round(process.uptime_s()),
            "memory_mib": round(process.memory_bytes() / MIB)}


def machine_facts(instance: Instance) -> list[dict[str, Any]]:
    return [{"machine_id": machine_id, "pid": process.pid, "uptime_s": round(process.uptime_s()),
             "memory_mib": round(process.memory_bytes() / MIB)}
            for machine_id, process in sorted(hostside.bodies(instance).items())]


def ask_database(instance: Instance) -> dict[str, Any]:
    """Hosts and workspaces by state, or why nobody can say."""
    code, text, problem = programs.manage_answer(instance, "berth_status", "--json")
    try:
        answer = json.loads(text) if code == 0 else {"problem": problem or f"its reader ended with {code}"}
    except ValueError:
        answer = {"problem": "its reader made no sense"}
    return answer if isinstance(answer, dict) else {}


def as_text(facts: dict[str, Any]) -> str:
    if not facts["set_up"]:
        return f"Nothing was set up yet in {facts['data']}. ./berth up does it."
    lines = [f"{facts['url']}  ({facts['data']})" if facts["running"] else f"not running  ({facts['data']})", ""]
    for process in facts["processes"]:
        lines.append(f"  {process['name']:<11} " + (
            f"pid {process['pid']:<8} up {span(process['uptime_s']):<9} {process['memory_mib']:>5} MiB"
            if process["pid"] else "not running"))
    lines.append("")
    if facts["database_problem"]:
        return "\n".join([*lines, f"  the database cannot be read: {facts['database_problem']}"])
    for host in facts["hosts"]:
        lines.append("  host " + ", ".join(f"{key} {value}" for key, value in host.items() if value not in (None, "")))
    states = ", ".join(f"{count} {state}" for state, count in facts["workspaces"].items() if count) or "none"
    lines.append(f"  workspaces: {states}")
    for machine in facts["machines"]:
        lines.append(f"  machine {machine['machine_id']}  pid {machine['pid']:<8} up {span(machine['uptime_s']):<9} "
                     f"{machine['memory_mib']:>5} MiB resident")
    return "\n".join(lines)


def span(seconds: int) -> str:
    """A length of time as a person says it: 42 s, 7 min, 3 h, 2 d."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
