"""`berth-cli` as people and scripts use it: a process of its own, against the whole product."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from berth_client import ApprovalRefused, Berth, OneWorkspace
from tests.client.conftest import USER, Cli, environment
from tests.client.screen import Screen
from tests.stack import Stack, until

pytestmark = pytest.mark.stack
MIB = 1024 * 1024


def test_login_tries_the_token_and_keeps_it_for_its_owner_alone(stack: Stack, tmp_path: Path) -> None:
    secret = stack.token(USER)
    cli = Cli(environment(tmp_path))
    kept = tmp_path / ".config/berth/client.json"
    before = cli.run("list")
    assert before.returncode == 1 and b"berth-cli login" in before.stderr
    wrong = cli.run("login", "--url", stack.base_url, "--token-stdin", stdin=b"berth_wrong\n")
    assert wrong.returncode == 1 and b"[unauthenticated]" in wrong.stderr and not kept.exists()
    done = cli.run("login", "--url", stack.base_url, "--token-stdin", stdin=f"{secret}\n".encode())
    assert done.returncode == 0 and kept.stat().st_mode & 0o777 == 0o600
    assert cli.json("whoami")["name"] == USER and USER in cli.good("whoami")
    assert secret.encode() not in done.stdout + done.stderr + cli.run("whoami", "--json").stdout
    assert cli.run("list", "--url", "http://127.0.0.1:9").returncode == 1, "no token for another address"
    cli.good("logout")
    assert not kept.exists()


def test_a_life_by_name(cli: Cli) -> None:
    made = cli.json("create", "by-name", "--label", "team=cli", "--env", "GREETING=hello")
    assert made["state"] == "running"
    assert [one["id"] for one in cli.json("list", "--label", "team=cli")] == [made["id"]]
    assert "by-name" in cli.good("list") and made["id"] in cli.good("show", "by-name")
    assert cli.json("show", f"{USER}/by-name")["id"] == made["id"]
    assert cli.good("exec", "by-name", "echo $GREETING") == "hello\n"
    assert cli.json("stop", "by-name")["state"] == "stopped"
    assert cli.json("start", "by-name")["state"] == "running"
    again = cli.run("create", "by-name")
    assert again.returncode == 1 and b"[name_taken]" in again.stderr and b"choose another" in again.stderr
    assert cli.json("rm", "by-name", "--wait-s", "60")["state"] == "deleted"
    assert made["id"] in [one["id"] for one in cli.json("list", "--state", "deleted")]
    assert cli.json("undelete", "by-name", "--wait-s", "60")["id"] == made["id"]
    cli.good("rm", made["id"], "--purge")
    nothing = cli.run("show", "by-name", "--json")
    assert (nothing.returncode, nothing.stdout) == (1, b"") and json.loads(nothing.stderr)["code"] == "not_found"


# -- exec ------------------------------------------------------------------------------------------------------------


def test_exec_is_the_command_its_streams_and_its_exit_code(cli: Cli, one: OneWorkspace) -> None:
    done = cli.run("exec", "shared", "printf out; printf err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out", b"err")
    words = cli.run("exec", "shared", "--", "printf", "%s|", "a b", "$HOME")
    assert (words.returncode, words.stdout) == (0, b"a b|$HOME|")
    data = os.urandom(3 * MIB)
    assert cli.run("exec", one.id, "cat", stdin=data).stdout == data
    assert cli.run("exec", "shared", "kill -TERM $$").returncode == 128 + signal.SIGTERM
    late = cli.run("exec", "--timeout-s", "0.3", "shared", "sleep 60")
    assert late.returncode == 124 and b"time was over" in late.stderr
    assert cli.run("exec", "--cwd", "/nope", "shared", "true").returncode == 255
    assert cli.run("exec", "nowhere", "true").returncode == 255
    assert cli.run("exec", "shared").returncode == 2
    said = cli.run("exec", "--json", "--no-stdin", "shared", "echo hi; exit 3")
    assert said.returncode == 3 and json.loads(said.stdout)["stdout"] == "hi\n"


def test_the_first_interrupt_is_the_commands_and_the_second_kills_it(cli: Cli, one: OneWorkspace) -> None:
    command = "trap 'echo trapped; exit 5' INT; echo ready; while :; do sleep 0.1; done"
    running = cli.start("exec", "-n", "shared", command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout and running.stdout.readline() == b"ready\n"
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert (out, running.returncode) == (b"trapped\n", 5)

    stubborn = cli.start("exec", "-n", "shared", "trap 'echo no' INT; echo ready; while :; do sleep 0.1; done",
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert stubborn.stdout and stubborn.stdout.readline() == b"ready\n"
    stubborn.send_signal(signal.SIGINT)
    assert stubborn.stdout.readline() == b"no\n"
    stubborn.send_signal(signal.SIGINT)
    _, said = stubborn.communicate(timeout=60)
    assert stubborn.returncode == 137 and b"killed by" in said


def test_a_command_whose_reader_has_gone_is_ended(cli: Cli, one: OneWorkspace) -> None:
    mark = "yes for-nobody"
    running = cli.start("exec", "-n", "shared", mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout and running.stdout.readline() == b"for-nobody\n"
    running.stdout.close()
    assert running.wait(60) == 128 + signal.SIGPIPE
    began = next(e for e in one.execs.list() if e.command == mark)
    assert one.execs.wait(began.id, give_up_after_s=30).outcome is not None


def test_logs_are_an_execs_output_or_what_happened(cli: Cli, one: OneWorkspace) -> None:
    began = one.execs.start("echo first; sleep 1; echo last")
    assert cli.good("logs", "-f", "shared", began.id) == "first\nlast\n"
    assert cli.good("logs", "shared", began.id) == "first\nlast\n"
    kinds = [json.loads(line)["kind"] for line in cli.good("logs", "shared", "--json").splitlines()]
    assert kinds[0] == "workspace.creating" and "exec.ended" in kinds
    last = [event.seq for event in one.past_events()][-1]
    following = cli.start("logs", "-f", "--after", str(last), "--json", "shared", stdout=subprocess.PIPE)
    one.patch(labels={"seen": "live"})
    assert following.stdout and json.loads(following.stdout.readline())["seq"] == last + 1
    following.send_signal(signal.SIGINT)
    assert following.wait(30) == 130


# -- shell -----------------------------------------------------------------------------------------------------------


def test_a_shell_types_resizes_is_left_and_found_again(cli: Cli, stack: Stack, one: OneWorkspace) -> None:
    with Screen(cli.argv("shell", "shared", "--", "/bin/sh"), cli.environment, (100, 30)) as screen:
        screen.type("echo sum $((6*7)); stty size\r")
        screen.until("sum 42")
        screen.until("30 100")
        screen.resize(90, 20)
        screen.type_until("stty size\r", "20 90")
        screen.type("echo asleep $((1+1)); sleep 300\r")
        screen.until("asleep 2")
        screen.type("\x03")
        screen.type_until("echo interrupted $((1+1))\r", "interrupted 2")
        screen.type("KEPT=here\r\x1d")
        assert screen.ended() == 0
    exec_id = screen.shown.decode().split("--attach ")[1].split()[0]
    assert one.execs.get(exec_id).state == "running"
    with Screen(cli.argv("shell", "shared", "--attach", exec_id), cli.environment) as screen:
        screen.type("echo still $KEPT\r")
        screen.until("still here")
        stack.restart("gateway")
        screen.until("reconnecting")
        screen.until("]")
        stack.ready()
        screen.type_until("echo back $((2+2))\r", "back 4")
        screen.type("exit 6\r")
        assert screen.ended() == 6


def test_a_shell_needs_a_terminal_and_exec_can_have_one(cli: Cli, one: OneWorkspace) -> None:
    assert cli.run("shell", "shared").returncode == 255
    with Screen(cli.argv("exec", "--tty", "shared", "--", "sh", "-c", "test -t 0 && test -t 1 && echo tty; exit 4"),
                cli.environment) as screen:
        screen.until("tty")
        assert screen.ended() == 4


# -- cp --------------------------------------------------------------------------------------------------------------


def test_files_are_copied_both_ways_and_through_pipes(cli: Cli, one: OneWorkspace, tmp_path: Path) -> None:
    data = os.urandom(2 * MIB)
    (tmp_path / "tool").write_bytes(data)
    (tmp_path / "tool").chmod(0o755)
    cli.good("cp", "-p", str(tmp_path / "tool"), "shared:copies/tool")
    assert one.files.stat("/home/user/copies/tool").mode == "0755"
    cli.good("cp", str(tmp_path / "tool"), "shared:copies")
    cli.good("cp", "shared:copies/tool", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data
    assert cli.run("cp", "shared:/home/user/copies/tool", "-").stdout == data
    cli.good("cp", "-", "shared:piped", stdin=data)
    assert one.files.read("/home/user/piped") == data
    folder = cli.run("cp", "shared:copies", str(tmp_path / "x"))
    assert folder.returncode == 1 and b"-r" in folder.stderr
    missing = cli.run("cp", "shared:none", str(tmp_path / "x"))
    assert missing.returncode == 1 and b"[file_not_found]" in missing.stderr and not (tmp_path / "x").exists()
    assert cli.run("cp", "/nowhere", "shared:x").returncode == 1
    assert cli.run("cp", "a", "b").returncode == 1


# -- pasts, people ---------------------------------------------------------------------------------------------------


def test_pasts_from_a_shell(cli: Cli, stack: Stack) -> None:
    made = stack.workspace(USER, "travelled")
    cli.good("exec", "travelled", "echo then > kept")
    point = cli.json("checkpoint", "travelled", "--name", "first")
    assert point["state"] == "ready" and [c["id"] for c in cli.json("checkpoints", "travelled")] == [point["id"]]
    cli.good("exec", "travelled", "echo now > kept")
    back = cli.run("restore", "travelled", "first")
    assert back.returncode == 0 and b"To undo it: berth-cli restore travelled" in back.stderr
    assert cli.good("exec", "travelled", "cat kept") == "then\n"
    forks = cli.json("fork", "travelled", "branch", "--checkpoint", "first")
    assert cli.good("exec", "branch", "cat kept") == "then\n"
    assert cli.run("restore", "travelled", "no such").returncode == 1
    for gone in (forks[0]["id"], made["id"]):
        cli.good("rm", gone, "--purge")


def test_tokens_from_a_shell(cli: Cli, stack: Stack, one: OneWorkspace) -> None:
    secret = cli.good("tokens", "create", "script", "--scope", "workspaces:read", "--workspace", "shared").strip()
    with Berth(stack.base_url, secret) as narrow:
        assert [w.id for w in narrow.workspaces.list()] == [one.id]
    mine = next(token for token in cli.json("tokens") if token["name"] == "script")
    assert secret not in cli.good("tokens")
    cli.good("tokens", "revoke", mine["id"])
    assert mine["id"] not in [token["id"] for token in cli.json("tokens")]


def test_what_waits_for_a_member_is_seen_and_decided(cli: Cli, stack: Stack, berth: Berth) -> None:
    scopes = [word for scope in ("workspaces:read", "workspaces:write", "approvals") for word in ("--scope", scope)]
    boss = Berth(stack.base_url, stack.token(USER, *scopes, "--name", "boss"))
    made = boss.workspaces.create("guarded", approvals={"restore": True, "delete": True}, wait_s=60)
    one = berth.workspace(made)
    stack.token("guest")  # makes the person
    boss.workspace(made).members.add("guest", "operator")
    assert [(m.user, m.role) for m in one.members.list()] == [(USER, "owner"), ("guest", "operator")]
    assert "guest" in cli.good("members", "guarded")
    point = one.checkpoints.create("p")
    asked = cli.run("restore", "guarded", "p", "--wait-s", "1")
    assert asked.returncode == 0 and b"waits for a member's approval" in asked.stderr
    (waiting,) = cli.json("approvals", "guarded")
    assert (waiting["kind"], waiting["request"]["checkpoint"]) == ("restore", point.id)
    own = cli.run("approve", "guarded", waiting["id"])
    assert own.returncode == 1 and b"error:" in own.stderr, "no token decides what it asked for"
    overseer = Cli({**cli.environment, "BERTH_TOKEN": stack.token(USER, *scopes, "--name", "boss")})
    assert overseer.json("approve", "guarded", waiting["id"])["state"] == "approved"
    assert one.approvals.wait(waiting["id"]).state == "approved"
    until(lambda: any(event.kind == "workspace.restored" for event in one.past_events()), "it was restored", 60)
    one.wait("running")
    doors = boss.workspace(made).approvals
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        deleting = beside.submit(one.delete, wait_s=60)
        asked_for = until(lambda: list(doors.list(state="pending")), "the delete is asked about", 60)
        assert [doors.deny(each.id).state for each in asked_for] == ["denied"]
        with pytest.raises(ApprovalRefused) as refused:
            deleting.result(60)
        assert refused.value.code == "approval_denied"
    boss.workspace(made).members.remove("guest")
    assert one.get().state == "running"
    boss.close()


# -- completion ------------------------------------------------------------------------------------------------------


def test_workspaces_are_completed_by_name_and_the_scripts_are_sound(cli: Cli, one: OneWorkspace) -> None:
    assert cli.good("__complete", "exec", "sha").split() == ["shared"]
    assert Cli({**cli.environment, "BERTH_TOKEN": "berth_no"}).good("__complete", "exec", "sha").split() == []
    script = cli.good("completion", "bash")
    asked = ('berth-cli() { "$PYTHON" -m berth_client.cli "$@"; }; COMP_WORDS=(berth-cli exec sha); COMP_CWORD=2; '
             '_berth_cli; echo "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], env={**cli.environment, "PYTHON": cli.argv()[0]},
                          capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["shared"], done.stderr
    for shell, mark in (("zsh", "#compdef berth-cli"), ("fish", "complete -c berth-cli")):
        assert mark in cli.good("completion", shell)
