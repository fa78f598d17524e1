"""The client against the whole product: what it promises about lives, commands, files, pasts, holds and tokens."""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from berth_client import (
    AsyncBerth,
    Berth,
    Chunk,
    Ended,
    ExecConflict,
    ExecFailed,
    Exited,
    IdempotencyConflict,
    InvalidRequest,
    Killed,
    NameTaken,
    NoSuchFile,
    NotAllowed,
    NotFound,
    NotSignedIn,
    OneWorkspace,
    PreconditionFailed,
    Signaled,
    StateConflict,
    TimedOut,
    WaitTimeout,
)
from tests.stack import Stack

pytestmark = pytest.mark.stack
MIB = 1024 * 1024
HOME = "/home/user"


# -- lives -----------------------------------------------------------------------------------------------------------


def test_a_workspace_from_birth_to_trash_and_back(berth: Berth) -> None:
    made = berth.workspaces.create("whole life", labels={"team": "a"}, cpus=1, wait_s=60)
    one = berth.workspace(made)
    assert (made.state, made.owner, made.labels) == ("running", "clara", {"team": "a"})
    assert made.created_at is not None and made.created_at.utcoffset() is not None
    assert berth.workspaces.named("whole life").id == made.id
    assert [w.id for w in berth.workspaces.list(labels={"team": "a"})] == [made.id]
    assert one.patch(labels={"team": "b"}).labels == {"team": "b"}
    assert one.stop(wait_s=60).state == "stopped"
    assert one.start(wait_s=60).state == "running" == one.wait("running").state
    with pytest.raises(NameTaken) as taken:
        berth.workspaces.create("whole life")
    assert (taken.value.status, taken.value.code) == (409, "name_taken")
    assert one.delete(wait_s=60).state == "deleted"
    with pytest.raises(StateConflict) as refused:
        one.run("true")
    assert refused.value.reason == "deleted"
    assert one.undelete(wait_s=60).state in ("stopped", "standby")
    one.delete(purge=True, wait_s=60)


def test_a_fork_goes_its_own_way(berth: Berth, one: OneWorkspace) -> None:
    one.files.write(f"{HOME}/origin", "before")
    forks = one.fork("twin", count=2, wait_s=120)
    assert [fork.name for fork in forks] == ["twin-1", "twin-2"]
    for fork in forks:
        twin = berth.workspace(fork)
        assert twin.files.read_text(f"{HOME}/origin") == "before"
        twin.files.write(f"{HOME}/origin", "after")
        twin.delete(purge=True)
    assert one.files.read_text(f"{HOME}/origin") == "before"


def test_what_is_not_reached_in_time_is_said_with_the_object(one: OneWorkspace) -> None:
    with pytest.raises(WaitTimeout) as over:
        one.wait("stopped", give_up_after_s=0.5)
    assert over.value.last.state == "running"


def test_lists_are_followed_over_their_pages(one: OneWorkspace) -> None:
    for _ in range(5):
        one.run("true")
    assert len(list(itertools.islice(one.execs.list(limit=2), 5))) == 5


def test_the_same_key_is_the_same_workspace_and_another_body_is_refused(berth: Berth) -> None:
    first = berth.workspaces.create("keyed", idempotency_key="the-key")
    assert berth.workspaces.create("keyed", idempotency_key="the-key").id == first.id
    with pytest.raises(IdempotencyConflict):
        berth.workspaces.create("another", idempotency_key="the-key")
    berth.workspace(first).delete(purge=True)


# -- commands --------------------------------------------------------------------------------------------------------


def test_output_is_bytes_and_an_outcome_has_a_class(one: OneWorkspace) -> None:
    ended = one.run(r"printf '\377\000ok'; echo bad >&2; exit 7", env={"A": "b"}, cwd="/tmp")
    assert (ended.outcome, ended.exit_code, ended.ok) == (Exited(7), 7, False)
    assert (ended.stdout_bytes, ended.stderr, ended.cwd) == (b"\xff\x00ok", "bad\n", "/tmp")
    assert ended.stdout == "\N{REPLACEMENT CHARACTER}\0ok"
    assert one.run("kill -9 $$").outcome == Signaled("SIGKILL")
    assert one.run("sleep 60", timeout_s=0.3).outcome == TimedOut()
    with pytest.raises(ExecFailed) as failed:
        one.run(["false"], check=True)
    assert failed.value.exec.exit_code == 1


@pytest.mark.parametrize("data", ["text\n", b"\x00\xff" * 10, b"z" * (2 * MIB)], ids=["text", "bytes", "much"])
def test_any_standard_input_arrives_whole(one: OneWorkspace, data: str | bytes) -> None:
    sent = data.encode() if isinstance(data, str) else data
    assert one.run("sha256sum", stdin=data).stdout.split()[0] == hashlib.sha256(sent).hexdigest()


def test_giving_up_ends_the_waiting_and_not_the_command(one: OneWorkspace) -> None:
    with pytest.raises(WaitTimeout) as over:
        one.run("sleep 2; echo late", give_up_after_s=0.3)
    assert one.execs.wait(over.value.last.id, give_up_after_s=30).stdout == "late\n"


def test_a_followed_exec_gives_every_byte_once_and_then_its_end(one: OneWorkspace) -> None:
    began = one.execs.start("for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.05; done; exit 3")
    pieces = list(one.execs.follow(began.id))
    out = b"".join(p.data for p in pieces if isinstance(p, Chunk) and p.stream == "stdout")
    err = b"".join(p.data for p in pieces if isinstance(p, Chunk) and p.stream == "stderr")
    assert (out, err, pieces[-1]) == (b"1\n2\n3\n", b"e1\ne2\ne3\n", Ended(Exited(3)))
    half = pieces[0]
    assert isinstance(half, Chunk)
    later = [p for p in one.execs.follow(began.id, offset=half.next_offset) if isinstance(p, Chunk)]
    assert b"".join(p.data for p in later) == b"".join(p.data for p in pieces[1:] if isinstance(p, Chunk))


def test_stdin_signal_and_kill_reach_a_running_command(one: OneWorkspace) -> None:
    began = one.execs.start("cat", stdin_open=True)
    assert one.execs.write_stdin(began.id, b"abc") == 3
    one.execs.write_stdin(began.id, b"def", eof=True)
    assert one.execs.wait(began.id, give_up_after_s=30).stdout == "abcdef"
    with pytest.raises(ExecConflict) as refused:
        one.execs.write_stdin(began.id, b"more")
    assert refused.value.code == "exec_ended"
    began = one.execs.start(["sleep", "300"])
    one.execs.signal(began.id, "SIGINT")
    assert one.execs.wait(began.id, give_up_after_s=30).outcome == Signaled("SIGINT")
    ended = one.execs.kill(one.execs.start("sleep 300 & sleep 300").id)
    assert isinstance(ended.outcome, Killed)


def test_raw_output_is_read_from_any_place(one: OneWorkspace) -> None:
    ended = one.run("printf 0123456789")
    assert one.execs.output(ended.id, offset=4) == (b"456789", 10)


def test_a_bad_request_is_named_by_field_and_a_stranger_sees_nothing(stack: Stack, berth: Berth, one: OneWorkspace
                                                                     ) -> None:
    with pytest.raises(InvalidRequest) as invalid:
        one.run("true", cwd="/nope")
    assert list(invalid.value.errors) == ["cwd"] and "cwd" in str(invalid.value)
    with Berth(stack.base_url, stack.token("stranger")) as stranger, pytest.raises(NotFound):
        stranger.workspace(one.id).get()
    with Berth(stack.base_url, "berth_nobody") as nobody, pytest.raises(NotSignedIn) as unknown:
        nobody.me()
    assert unknown.value.code == "unauthenticated"


# -- connections that drop -------------------------------------------------------------------------------------------


def test_a_command_survives_the_restart_of_the_gateway_and_loses_no_byte(stack: Stack, one: OneWorkspace) -> None:
    """Its start, its live output and its end, each asked for while the way there is gone."""
    began = one.execs.start("for i in $(seq 1 60); do echo line $i; sleep 0.05; done; exit 9")
    seen: list[bytes] = []
    for piece in one.execs.follow(began.id):
        if isinstance(piece, Chunk):
            seen.append(piece.data)
            if len(seen) == 5:
                stack.restart("gateway")
        else:
            assert piece.outcome == Exited(9)
    assert b"".join(seen) == "".join(f"line {i}\n" for i in range(1, 61)).encode()

    cut = threading.Timer(0.5, stack.restart, ["gateway"])
    cut.start()
    ended = one.run(f"echo once >> {HOME}/ran; sleep 2; cat {HOME}/ran")
    cut.join()
    assert (ended.outcome, ended.stdout) == (Exited(0), "once\n")
    stack.ready()


def test_events_have_no_gap_over_a_restart(stack: Stack, berth: Berth) -> None:
    made = berth.workspaces.create("eventful", wait_s=60)
    one = berth.workspace(made)
    got = []
    for event in one.events():
        got.append(event)
        if event.kind == "workspace.running":
            stack.restart("gateway")
            one.patch(labels={"after": "restart"})
        if event.kind == "workspace.changed":
            break
    assert [event.seq for event in got] == list(range(1, len(got) + 1))
    assert [event.raw for event in one.past_events()] == [event.raw for event in got]
    assert got[-1].actor.type == "token"
    one.delete(purge=True)


# -- files -----------------------------------------------------------------------------------------------------------


def test_files_are_written_read_listed_moved_and_removed(one: OneWorkspace) -> None:
    files, base = one.files, f"{HOME}/tree"
    odd = f"{base}/".encode() + b"\xff odd%2f+&.txt"
    wrote = files.write(odd, b"odd", parents=True)
    assert files.read(odd) == b"odd" and files.stat(odd).size == wrote.size == 3
    files.write(f"{base}/ü", "text", mode="0600")
    assert files.read_text(f"{base}/ü") == "text" and files.stat(f"{base}/ü").mode == "0600"
    assert files.mkdir(f"{base}/d/e", parents=True).is_folder
    files.copy(odd, f"{base}/d/copy")
    files.move(f"{base}/d/copy", f"{base}/d/moved")
    files.chmod(f"{base}/d/moved", "0755")
    listed = {entry.path_encoded for entry in files.list(base, recursive=True)}
    assert {name.removeprefix(base + "/") for name in listed} == {"%FF%20odd%252f%2B%26.txt", "%C3%BC", "d", "d/e",
                                                                  "d/moved"}
    assert files.exists(base) and not files.exists(f"{base}/none")
    files.delete(base, recursive=True)
    with pytest.raises(NoSuchFile):
        files.read(odd)


def test_a_lost_update_is_refused(one: OneWorkspace) -> None:
    path = f"{HOME}/shared.txt"
    first = one.files.write(path, "one", only_new=True)
    one.files.write(path, "two", if_match=first.etag)
    for how in ({"if_match": first.etag}, {"only_new": True}):
        with pytest.raises(PreconditionFailed):
            one.files.write(path, "three", **how)
    assert one.files.read_text(path) == "two"


def test_a_large_file_goes_both_ways_in_flat_memory(one: OneWorkspace, tmp_path: Path) -> None:
    here = tmp_path / "large"
    with here.open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(MIB))
    digest = hashlib.sha256(here.read_bytes()).hexdigest()
    tracemalloc.start()
    assert one.files.upload(here, f"{HOME}/large").size == 64 * MIB
    assert one.files.download(f"{HOME}/large", tmp_path / "back") == 64 * MIB
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * MIB
    assert hashlib.sha256((tmp_path / "back").read_bytes()).hexdigest() == digest
    assert one.run(["sha256sum", f"{HOME}/large"]).stdout.split()[0] == digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "large"]


def test_a_download_goes_on_where_the_gateway_died(stack: Stack, one: OneWorkspace) -> None:
    path = f"{HOME}/long"
    one.run(f"head -c {48 * MIB} /dev/urandom > {path}", check=True)
    whole, restarted = hashlib.sha256(), False
    for data in one.files.stream(path):
        whole.update(data)
        if not restarted:
            stack.restart("gateway")
            restarted = True
    assert whole.hexdigest() == one.run(["sha256sum", path]).stdout.split()[0]
    stack.ready()


# -- pasts, holds, tokens --------------------------------------------------------------------------------------------


def test_a_checkpoint_is_looked_into_compared_and_gone_back_to(berth: Berth) -> None:
    made = berth.workspaces.create("pasts", wait_s=60)
    one = berth.workspace(made)
    one.files.write(f"{HOME}/kept", "then")
    point = one.checkpoints.create("before", comment="a try")
    assert (point.state, point.name, point.kind) == ("ready", "before", "manual")
    one.files.write(f"{HOME}/kept", "now, and longer")
    one.files.write(f"{HOME}/new", "x")
    assert [c.id for c in one.checkpoints.list(name="before")] == [point.id]
    assert one.checkpoints.patch(point.id, comment="renamed").comment == "renamed"
    back = one.checkpoints.restore(point.id)
    assert back.id == made.id and back.safety_checkpoint
    assert one.files.read_text(f"{HOME}/kept") == "then" and not one.files.exists(f"{HOME}/new")
    one.checkpoints.restore(back.safety_checkpoint)
    assert one.files.read_text(f"{HOME}/kept") == "now, and longer"
    one.checkpoints.delete(point.id)
    with pytest.raises(NotFound):
        one.checkpoints.get(point.id)
    one.delete(purge=True)


def test_holds_and_tokens(stack: Stack, berth: Berth, one: OneWorkspace) -> None:
    hold = one.holds.add("a long build", 600)
    assert [(h.id, h.reason, h.source) for h in one.holds.list()] == [(hold.id, "a long build", "api")]
    one.holds.remove(hold.id)
    assert list(one.holds.list()) == []
    made = berth.tokens.create("narrow", scopes=["workspaces:read"], workspace_ids=[one.id], expires_in_s=600)
    assert made.secret and made.secret not in repr(made)
    with Berth(stack.base_url, made.secret) as narrow:
        assert narrow.me().scopes == ["workspaces:read"] and narrow.workspace(one.id).get().id == one.id
    berth.tokens.revoke(made.id)
    assert made.id not in [token.id for token in berth.tokens.list()]


def test_a_network_is_read_set_over_what_was_read_and_its_log_looked_at(berth: Berth, one: OneWorkspace) -> None:
    seen = one.network.get()
    assert (seen.network, seen.supported, seen.limits["connections"]) == ({"mode": "deny-all"}, False, 256)
    assert one.network.set(seen.network, revision=seen.revision).revision == seen.revision
    with pytest.raises(PreconditionFailed):
        one.network.set(seen.network, revision=seen.revision + 1)
    with pytest.raises(InvalidRequest) as refused:
        one.network.set({"mode": "allow-all"})
    assert "no machine out" in refused.value.errors["mode"][0], "this host is the fake driver's"
    assert one.network.recent(verdict="refused", limit=5) == list(one.network.log()) == []


# -- who awaits has the same -----------------------------------------------------------------------------------------


async def test_the_same_calls_awaited(stack: Stack, async_berth: AsyncBerth, one: OneWorkspace, tmp_path: Path) -> None:
    here = async_berth.workspace(one.id)
    ended = await here.run("echo hi; exit 4")
    assert (ended.stdout, ended.outcome) == ("hi\n", Exited(4))
    assert one.id in [w.id async for w in async_berth.workspaces.list()]
    began = await here.execs.start("for i in $(seq 1 40); do echo $i; sleep 0.05; done")
    seen = b""
    async for piece in here.execs.follow(began.id):
        if isinstance(piece, Chunk):
            if not seen:
                stack.restart("gateway")
            seen += piece.data
    assert seen == "".join(f"{i}\n" for i in range(1, 41)).encode()
    (tmp_path / "up").write_bytes(data := os.urandom(3 * MIB))
    await here.files.upload(tmp_path / "up", f"{HOME}/awaited")
    await here.files.download(f"{HOME}/awaited", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == data
    last = [event.seq async for event in here.past_events()][-1]
    async for event in here.events(after=last - 1):
        assert event.seq == last
        break
    with pytest.raises(NoSuchFile):
        await here.files.read("/none")


def test_no_deadline_of_the_clients_own_cuts_a_silent_command(one: OneWorkspace, monkeypatch: pytest.MonkeyPatch
                                                              ) -> None:
    """The end is asked for again and again; here every half second, so that the test need not be long."""
    monkeypatch.setattr("berth_client.acts.execs.POLL_S", 0.5)
    began = time.monotonic()
    assert one.run("sleep 2.2; echo done").stdout == "done\n"
    assert time.monotonic() - began > 2


# -- for admins ------------------------------------------------------------------------------------------------------


def test_admins_ask_and_set_what_the_instance_keeps_and_others_are_refused(stack: Stack, berth: Berth) -> None:
    with pytest.raises(NotAllowed):
        list(berth.admin.hosts.list())
    secret = stack.manage("berth_token", "chief", "--admin").split()[-1]
    with Berth(stack.base_url, secret) as chief:
        admin = chief.admin
        host = next(iter(admin.hosts.list()))
        assert host.reachable and host.last_seen_at is not None and admin.hosts.get(host.id).id == host.id
        assert admin.hosts.change(host.id, schedulable=True).schedulable
        made = admin.people.create("newcomer")
        assert (made.active, made.is_admin, made.has_password) == (True, False, False)
        assert [one.name for one in admin.people.list(search="newcomer", active=True)] == ["newcomer"]
        assert not admin.people.change("newcomer", active=False).active
        assert list(admin.people.groups()) == []
        assert admin.policies.set("user:newcomer", {"workspaces": {"value": 3}}).terms["workspaces"]["value"] == 3
        assert "user:newcomer" in [one.scope for one in admin.policies.list()]
        assert admin.policies.effective("newcomer").terms["workspaces"]["value"] == 3
        assert admin.policies.change("user:newcomer", {"workspaces": {"value": 4}}).terms["workspaces"]["value"] == 4
        for planned in (admin.policies.dry_run(user="newcomer"),
                        admin.policies.dry_run(scope="user:newcomer", terms={"workspaces": {"value": 1}}, days=1)):
            assert (planned.results, planned.complete) == ([], True)
        admin.policies.remove("user:newcomer")
        with pytest.raises(NotFound):
            admin.policies.get("user:newcomer")
        noted = next(iter(admin.audit.list(kind="user.create", target="user:newcomer", limit=5)))
        assert (noted.outcome, noted.status) == ("ok", 201) and noted.actor is not None and noted.at is not None


async def test_the_same_is_awaited(stack: Stack) -> None:
    secret = stack.manage("berth_token", "chief", "--admin").split()[-1]
    async with AsyncBerth(stack.base_url, secret) as chief:
        assert (await chief.admin.people.get("chief")).is_admin
        assert [host.reachable async for host in chief.admin.hosts.list()] == [True]
