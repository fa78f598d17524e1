"""The whole of hostd once on real machines: the same calls as on the fake driver, over a guest that is one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.host.client import Hostd, eventually, new_id, running_hostd
from tests.host.test_terminal import OUTCOME, joined, shell

pytestmark = pytest.mark.vm
UP_S = 600.0


async def boot(hostd: Hostd, machine_id: str, generation: int, kind: str = "boot") -> None:
    spec = {"machine_id": machine_id, "generation": generation, "hostname": "box", "env": {"FROM_SPEC": "yes"}}
    operation_id = new_id()
    answer = await hostd.call(
        "POST",
        f"/v1/machines/{machine_id}/operations",
        json={"operation_id": operation_id, "kind": kind, "generation": generation, "spec": spec},
    )
    assert answer.status == 202, answer.body
    ended = await hostd.operation_end(machine_id, operation_id, UP_S)
    assert ended["state"] == "done", f"{ended}\n{hostd.log[-3000:]}"


def qemu_pid(hostd: Hostd, machine_id: str) -> int:
    """The one QEMU of this machine, found from outside by its arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"qemu-system" in words.split(b"\0")[0] and machine_id.encode() in words:
                found.append(int(entry.name))
    assert len(found) == 1, found
    return found[0]


async def test_a_real_machine_boots_works_outlives_hostd_dies_and_keeps_its_files(cache: Path):
    async with running_hostd("qemu", images=cache) as hostd:
        mid = new_id()
        await boot(hostd, mid, 1, "create_disk")
        await boot(hostd, mid, 1)
        record = await hostd.exec(mid, "hostname; id -un; pwd; echo $FROM_SPEC; cat /etc/machine-id; exit 3")
        name, user, home, env, identity = record["stdout"].split()
        assert (name, user, home, env, record["outcome"]) == (
            "box",
            "user",
            "/home/user",
            "yes",
            {"kind": "exited", "code": 3},
        )
        data = os.urandom(3_000_000)
        put = await hostd.call("PUT", f"/v1/machines/{mid}/files/content?path=/home/user/kept%ff", data=data)
        assert put.status == 201
        exec_id = await shell(hostd, mid)
        async with joined(hostd, mid, exec_id) as client:
            await client.type("stty size; echo in-$((40+2))\n")
            await client.until(b"in-42\r\n")
            assert b"30 100" in client.output

        counting = await hostd.exec(mid, "for i in $(seq 1 400); do echo $i; sleep 0.01; done; exit 4", background=True)
        pid = qemu_pid(hostd, mid)
        hostd.kill9()
        await hostd.start()
        assert qemu_pid(hostd, mid) == pid and (await hostd.observe(mid))["phase"] == "running"
        ended = await hostd.end_of(mid, counting["id"])
        assert ended["outcome"] == {"kind": "exited", "code": 4}
        assert ended["stdout"] == "".join(f"{i}\n" for i in range(1, 401))
        async with joined(hostd, mid, exec_id, offset=len(client.output)) as again:
            await again.type("exit 5\n")
            assert await again.until_frame(OUTCOME) == {"kind": "exited", "code": 5}

        timed_out = await hostd.exec(mid, "setsid sh -c 'sleep 321' & trap '' TERM; echo early; sleep 321", timeout_s=5)
        assert (timed_out["outcome"], timed_out["stdout"]) == ({"kind": "timed_out"}, "early\n")
        assert (await hostd.exec(mid, "pgrep -f 'sleep 32[1]' || echo none"))["stdout"] == "none\n"

        running = await hostd.exec(mid, "sleep 600", background=True)
        os.kill(pid, signal.SIGKILL)
        lost = await hostd.end_of(mid, running["id"])
        assert lost["outcome"] == {"kind": "lost", "reason": "machine_died"}
        assert (await hostd.observe(mid))["phase"] == "dead"
        await eventually(lambda: hostd.facts(mid, "machine.died"), "the fact is told")

        await boot(hostd, mid, 2)
        assert (await hostd.exec(mid, "cat /etc/machine-id"))["stdout"].strip() == identity
        got = await hostd.call("GET", f"/v1/machines/{mid}/files/content?path=/home/user/kept%ff")
        assert got.body == data
        await hostd.call("PUT", f"/v1/machines/{mid}/files/content?path=/home/user/late", data=b"late")
        off = await hostd.operate(mid, "shutdown", 2, grace_s=60)
        assert off["state"] == "done" and (await hostd.observe(mid))["end_reason"] == "stopped"
        await boot(hostd, mid, 3)
        assert (await hostd.exec(mid, "cat late"))["stdout"] == "late"
        figures = json.loads((await hostd.call("GET", f"/v1/machines/{mid}/metrics")).body)
        assert figures["now"]["memory_total_bytes"] > 0
        await hostd.operate(mid, "destroy", 3)
        assert not (hostd.state / "machines" / mid).exists()
