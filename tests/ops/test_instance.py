"""Instances beside each other, logs that stay bounded, stamps that follow contents."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ops import frontend, logs, probes, up
from ops.instance import Instance, from_environment
from ops.roster import services
from ops.say import SetupFailed


def test_two_instances_share_no_path_socket_or_port(tmp_path: Path) -> None:
    one = Instance(tmp_path / "one", tmp_path / "cache", port=8001)
    two = Instance(tmp_path / "two", tmp_path / "cache", port=8002)
    for ours, theirs in zip(services(one), services(two), strict=True):
        assert str(tmp_path / "two") not in " ".join(ours.argv)
        assert "8001" not in theirs.argv
    assert one.environment()["BERTH_DATA"] != two.environment()["BERTH_DATA"]
    assert {one.redis_socket, one.hostd_socket, one.daphne_socket}.isdisjoint(
        {two.redis_socket, two.hostd_socket, two.daphne_socket})


def test_later_commands_find_the_port_of_the_last_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_DATA", str(tmp_path))
    monkeypatch.delenv("BERTH_CACHE", raising=False)
    started = from_environment(port=8123)
    started.make_folders()
    started.remember_address()
    assert from_environment().port == 8123
    assert from_environment(port=9000).port == 9000


def test_a_damaged_address_file_means_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_DATA", str(tmp_path))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "address.json").write_text('{"host": ')
    assert from_environment().port == 8000


def test_one_data_folder_carries_one_instance_at_a_time(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "data", tmp_path / "cache")
    instance.make_folders()
    first = up.take_instance(instance)
    assert first is not None
    assert up.take_instance(instance) is None
    first.close()
    again = up.take_instance(instance)
    assert again is not None
    again.close()


def test_a_taken_port_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_DATA", str(tmp_path / "data"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not probes.port_is_free("127.0.0.1", port)
        with pytest.raises(SetupFailed, match="--port"):
            up.up("127.0.0.1", port, detach=True)


def test_a_data_folder_too_deep_for_sockets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match="too long"):
        up.refuse_impossible(Instance(tmp_path / ("x" * 90), tmp_path))


def test_the_state_folder_is_closed_to_others(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "data", tmp_path / "cache")
    instance.data.mkdir(mode=0o755)  # as a former version left it
    instance.make_folders()
    assert {oct(folder.stat().st_mode & 0o777) for folder in (instance.data, instance.run, instance.log)} == {"0o700"}


def test_a_log_is_cut_while_its_writer_goes_on(tmp_path: Path) -> None:
    with logs.open_for(tmp_path, "hostd") as writer:
        for round_number in range(5):
            writer.write(b"%d" % round_number * 100)
            writer.flush()
            logs.rotate(tmp_path, limit_bytes=50)
        writer.write(b"after")
        writer.flush()
    assert (tmp_path / "hostd.log").read_bytes() == b"after"
    assert [(tmp_path / f"hostd.log.{n}").read_bytes()[:1] for n in (1, 2, 3)] == [b"4", b"3", b"2"]
    assert not (tmp_path / "hostd.log.4").exists()


def test_a_digest_follows_names_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "ROOT", tmp_path)
    file = tmp_path / "a.ts"
    file.write_text("one")
    before = frontend.digest([file])
    assert frontend.digest([file]) == before
    file.write_text("two")
    assert frontend.digest([file]) != before
    file.write_text("one")
    moved = file.rename(tmp_path / "b.ts")
    assert frontend.digest([moved]) != before
