"""A whole machine, root in it, and the world around it: what programs see, and what nobody gets past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.egress.town import ORIGIN, running_town
from tests.host.client import Hostd, eventually, new_id, running_hostd
from tests.host.test_vm import boot

pytestmark = pytest.mark.vm


async def put(hostd: Hostd, mid: str, revision: int, policy: dict[str, Any], **more: Any) -> None:
    answer = await hostd.call("PUT", f"/v1/machines/{mid}/network",
                              json={"document": {"revision": revision, "policy": policy, **more}})
    assert (answer.status, answer.json) == (200, {"revision": revision})


async def rows(hostd: Hostd, mid: str, **like: Any) -> list[dict[str, Any]]:
    page = (await hostd.call("GET", f"/v1/machines/{mid}/network/log?limit=1000")).json
    return [row for row in page["results"] if all(row[key] == value for key, value in like.items())]


async def test_a_machine_reaches_what_it_may(cache: Path) -> None:
    with running_town(alone=False) as town:
        town.servers.names["a.test"] = (30, [ORIGIN])
        async with running_hostd("qemu", images=cache, options=("--egress", str(town.socket))) as hostd:
            mid = new_id()
            await put(hostd, mid, 1, {"mode": "rules", "rules": [{"domain": "a.test"}]})
            await boot(hostd, mid, 1, "create_disk")
            await boot(hostd, mid, 1)
            assert (await hostd.observe(mid))["network_revision"] == 1
            said = await hostd.exec(mid, "ip address; ip route; cat /etc/resolv.conf; curl -sS -m 20 http://a.test/x; "
                                         "curl -sS -m 20 http://b.test/")
            print(said["stdout"], said["stderr"])
            assert f"{ORIGIN}\nGET /x HTTP/1.1" in said["stdout"]
            await eventually(lambda: rows(hostd, mid, name="a.test", verdict="allowed"), "a row")
            print(await rows(hostd, mid))
