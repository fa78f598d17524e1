"""What hostd keeps and tells of machines' connections: the log's bounds and pages, and which refusals become facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandboxes.host.netlog import NEWEST, NetLog
from sandboxes.host.refusals import Refusals


def row(port: int, verdict: str = "refused", count: int = 1, reason: str = "no_rule") -> dict[str, Any]:
    return {"machine_id": "m", "name": "a.test", "address": "203.0.113.10", "port": port, "protocol": "tcp",
            "verdict": verdict, "rule": "rules", "reason": reason, "bytes_in": 0, "bytes_out": 0, "ms": 1,
            "count": count, "at": 1796099802.5}


def test_a_log_is_read_in_pages_and_goes_on_where_a_former_hostd_ended(tmp_path: Path) -> None:
    log = NetLog(tmp_path / "network")
    assert log.page(0, 10, "") == {"results": [], "next": 0, "dropped": 0}
    log.append([row(1), row(2, "allowed"), row(3)], dropped=4)
    page = log.page(1, 1, "")
    assert [each["port"] for each in page["results"]] == [2] and page["next"] == 2 and page["dropped"] == 4
    assert page["results"][0]["at"].startswith("2026-12-") and "machine_id" not in page["results"][0]
    assert [each["port"] for each in log.page(NEWEST, 2, "")["results"]] == [2, 3], "a first look is at the newest"
    assert [each["port"] for each in log.page(0, 2, "")["results"]] == [1, 2], "who names nought begins there"
    assert [each["port"] for each in log.page(0, 9, "refused")["results"]] == [1, 3]
    assert log.page(3, 9, "") == {"results": [], "next": 3, "dropped": 4}
    with (tmp_path / "network" / "current.jsonl").open("ab") as cut_short:
        cut_short.write(b'{"seq": 99, "na')
    again = NetLog(tmp_path / "network")
    again.append([row(4)])
    assert [(each["seq"], each["port"]) for each in again.page(2, 9, "")["results"]] == [(3, 3), (4, 4)]


def test_a_log_never_takes_more_than_two_files(tmp_path: Path) -> None:
    log = NetLog(tmp_path, file_bytes=2000)
    for port in range(1, 61):
        log.append([row(port)])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000
    ports = [each["port"] for each in log.page(0, 100, "")["results"]]
    assert ports == list(range(ports[0], 61)) and 10 < len(ports) < 40


def test_refusals_are_told_one_a_second_and_the_same_one_a_minute() -> None:
    refusals = Refusals()
    for _ in range(3):
        refusals.add(row(443, count=2))
    refusals.add(row(80))
    first = refusals.due(100.0)
    assert first is not None and (first["port"], first["count"], set(first)) == (
        443, 6, {"name", "address", "port", "protocol", "reason", "count"})
    assert refusals.due(100.5) is None
    second = refusals.due(101.0)
    assert second is not None and second["port"] == 80
    refusals.add(row(443))
    refusals.add(row(443))
    assert refusals.due(150.0) is None
    told = refusals.due(161.0)
    assert told is not None and told["count"] == 2
    for port in range(1000):
        refusals.add(row(port))
    told_ports = {fact["port"] for second in range(500) if (fact := refusals.due(1000.0 + second)) is not None}
    assert len(told_ports) == 256, "what waits is bounded"
