"""Routes and their description say the same."""

from __future__ import annotations

import re

from workspaces.gateway import routes
from workspaces.gateway.openapi import FRAGMENT


def test_every_route_is_described_and_nothing_else() -> None:
    base = "/api/v1/workspaces/{id}/"
    served = {(base + rest, method.lower()) for rest, methods in routes.ROUTES.items() for method in methods}
    served |= {(f"{base}execs/{{eid}}{verb}", method.lower())
               for verb, methods in routes.EXEC_ROUTES.items() for method in methods}
    served |= {(f"{base}checkpoints/{{cid}}/{what}", method.lower())
               for what, methods in routes.LOOK_ROUTES.items() for method in methods}
    served |= {(path, method.lower()) for path, methods in routes.ALONE.items() for method in methods}
    served.add(("/healthz", "get"))
    described = {(path, method) for path, operations in FRAGMENT["paths"].items() for method in operations}
    assert served == described


def test_every_reference_leads_somewhere_and_names_are_unique() -> None:
    text = str(FRAGMENT)
    names = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert names - {"Problem"} <= set(FRAGMENT["components"]["schemas"])
    ids = re.findall(r"'operationId': '(\w+)'", text)
    assert len(ids) == len(set(ids)) == 21 + 4 + 1 + 4 + 2
