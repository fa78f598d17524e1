"""`./berth status`: processes with their memory, hosts, workspaces by state. Exit 0 when all of it runs.

Reads pid files and asks `manage.py berth_status --json` for what only the database knows.
"""

from __future__ import annotations

import json
from typing import Any

from ops import hostside, pids, programs
from ops.instance import Instance, from_environment
from ops.roster import STOP_ORDER

MIB = 1024 * 1024


def status(as_json: bool) -> int:
    instance = from_environment()
    facts = gather(instance)
    print(json.dumps(facts, indent=2) if as_json else as_text(facts))
    return 0 if facts["running"] else 1


def gather(instance: Instance) -> dict[str, Any]:
    processes = [process_facts(instance, name) for name in ("supervisor", *reversed(STOP_ORDER))]
    database = ask_database(instance)
    return {"data": str(instance.data), "url": instance.url, "running": all(p["pid"] for p in processes),
            "processes": processes, "machines": machine_facts(instance),
            "hosts": database.get("hosts", []), "workspaces": database.get("workspaces", {})}


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
    """Hosts and workspaces by state; empty before the first `up`."""
    if not (instance.data / "secret_key").exists():
        return {}
    code, text = programs.manage_stdout(instance, "berth_status", "--json")
    try:
        answer = json.loads(text) if code == 0 else {}
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def as_text(facts: dict[str, Any]) -> str:
    lines = [f"{facts['url']}  ({facts['data']})" if facts["running"] else f"not running  ({facts['data']})", ""]
    for process in facts["processes"]:
        lines.append(f"  {process['name']:<11} " + (
            f"pid {process['pid']:<8} up {span(process['uptime_s']):<9} {process['memory_mib']:>5} MiB"
            if process["pid"] else "not running"))
    lines.append("")
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
