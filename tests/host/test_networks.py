"""A machine's network document at its host: which one holds, what is refused, and that it outlives hostd."""

from __future__ import annotations

import pytest

from tests.host.client import Hostd, new_id

RULES = {"mode": "rules", "rules": [{"domain": "EXAMPLE.org"}], "ask": True}


def document(revision: object, **more: object) -> dict[str, object]:
    return {"document": {"revision": revision, "policy": RULES, **more}}


async def test_the_newest_document_holds_before_there_is_a_body_and_after_hostd_was_killed(hostd: Hostd) -> None:
    machine_id = new_id()
    path = f"/v1/machines/{machine_id}/network"

    async def kept() -> int:
        return (await hostd.call("GET", f"/v1/machines/{machine_id}")).json["network_revision"]

    assert await kept() == 0
    assert (await hostd.call("PUT", path, json=document(7))).json == {"revision": 7}
    assert (await hostd.call("PUT", path, json=document(6))).json == {"revision": 7}, "an older one changes nothing"
    await hostd.up(machine_id)
    assert await kept() == 7
    hostd.kill9()
    await hostd.close()
    await hostd.start()
    assert await kept() == 7
    assert (await hostd.call("PUT", path, json=document(8))).json == {"revision": 8}
    await hostd.operate(machine_id, "destroy", 2)
    assert await kept() == 0, "who is made anew under that name inherits nothing"


@pytest.mark.parametrize(("body", "field"), [
    ([], "document"), ({}, "document"), (document(0), "revision"), (document("7"), "revision"),
    (document(7, policy={"mode": "rules", "rules": [{"domain": "a b"}]}), "policy.rules[0].domain"),
    (document(7, colour="red"), "colour"), (document(7, limits={"connections": 0}), "limits.connections")])
async def test_what_is_no_document_is_refused_by_its_field(steady: tuple[Hostd, str], body: object, field: str) -> None:
    hostd, machine_id = steady
    answer = await hostd.call("PUT", f"/v1/machines/{machine_id}/network", json=body)
    assert (answer.status, answer.json["code"]) == (400, "invalid") and field in answer.json["errors"], answer.json


async def test_a_log_and_an_ask_of_a_machine_that_never_got_out(steady: tuple[Hostd, str]) -> None:
    hostd, machine_id = steady
    path = f"/v1/machines/{machine_id}/network"
    assert (await hostd.call("GET", f"{path}/log?after=3&limit=5&verdict=refused")).json == {
        "results": [], "next": 3, "dropped": 0}
    assert (await hostd.call("GET", f"{path}/log?verdict=maybe")).status == 400
    assert (await hostd.call("POST", f"{path}/asks/a1", json={"decision": "deny"})).status == 404
    assert (await hostd.call("POST", f"{path}/asks/a1", json={"decision": "approve"})).status == 400
