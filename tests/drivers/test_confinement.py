"""The guest is hostile: what its hypervisor is, may and sees, read from the host's own process table."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

from sandboxes.drivers.qemu import launch
from sandboxes.linux import space
from sandboxes.linux.names import netns_name
from sandboxes.linux.uids import FIRST_UID
from tests.drivers.world import Guest, World, silent, until

pytestmark = pytest.mark.vm


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


@pytest.fixture
async def pair(qemu_world: World, monkeypatch):
    """Two machines of one template."""
    monkeypatch.setenv("BERTH_SECRET_KEY", "s3cret")
    driver = qemu_world.driver()
    homes = [qemu_world.machine() for _ in range(2)]
    return [(home, spec, await driver.launch(home, spec, silent)) for home, spec in homes]


async def test_a_hypervisor_has_a_user_of_its_own_and_no_privilege(pair):
    facts = [status(machine.pid) for *_, machine in pair]
    for fact in facts:
        assert len(set(fact["Uid"].split())) == 1 and int(fact["Uid"].split()[0]) >= FIRST_UID
        assert fact["Gid"] == fact["Uid"] and fact["Groups"] == ""
        assert {fact[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert fact["NoNewPrivs"] == "1" and fact["Seccomp"] == "2"
    assert facts[0]["Uid"] != facts[1]["Uid"]


async def test_a_hypervisor_lives_in_namespaces_of_its_own(qemu_world: World, pair):
    kinds = ("mnt", "pid", "net", "ipc", "uts")
    seen = [[os.readlink(f"/proc/{pid}/ns/{kind}") for kind in kinds]
            for pid in ("self", *(machine.pid for *_, machine in pair))]
    for of_one_kind in zip(*seen, strict=True):
        assert len(set(of_one_kind)) == 3
    for _, spec, machine in pair:
        name = f"/run/netns/{netns_name(qemu_world.instance, spec.machine_id)}"
        assert f"net:[{os.stat(name).st_ino}]" == os.readlink(f"/proc/{machine.pid}/ns/net")


async def test_a_hypervisor_sees_neither_berth_s_folders_nor_homes_nor_other_processes(qemu_world: World, pair):
    *_, machine = pair[0]
    root = Path(f"/proc/{machine.pid}/root")
    assert {path.name for path in root.iterdir()} <= {"usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32", "etc",
                                                       "dev", "proc"}
    for hidden in (qemu_world.state_dir, Path.home(), Path("/home"), Path(__file__).parent, Path("/etc/passwd"),
                   Path("/etc/shadow"), Path("/var"), Path("/run"), Path("/sys"), Path("/tmp")):
        assert not (root / hidden.relative_to("/")).exists(), hidden
    assert [name for name in os.listdir(root / "proc") if name.isdigit()] == ["1"]
    mounts = Path(f"/proc/{machine.pid}/mounts").read_text().splitlines()
    writable = {line.split()[1] for line in mounts if "rw" in line.split()[3].split(",")}
    assert writable <= {"/proc", "/dev/null", "/dev/zero", "/dev/urandom", "/dev/kvm"}


async def test_a_hypervisor_s_environment_and_arguments_carry_no_secret_and_no_path(qemu_world: World, pair):
    _, spec, machine = pair[0]
    environment = Path(f"/proc/{machine.pid}/environ").read_text().rstrip("\0").split("\0")
    assert sorted(word.split("=")[0] for word in environment) == ["BERTH_BODY", "LC_ALL", "PATH"]
    words = Path(f"/proc/{machine.pid}/cmdline").read_text().split("\0")
    assert not [word for word in words if str(qemu_world.state_dir) in word or "s3cret" in word]
    sandbox = words[words.index("-sandbox") + 1]
    assert sandbox == "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
    assert spec.machine_id in environment[0] + environment[1] + environment[2]


async def test_a_hypervisor_holds_only_what_it_was_handed(qemu_world: World, pair):
    (home, _, machine), (other_home, *_) = pair
    targets = [os.readlink(f"/proc/{machine.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{machine.pid}/fd")]
    files = {target for target in targets if target.startswith("/") and not target.startswith(("/dev/", "/memfd:"))}
    mine = {str(path.resolve()) for path in home.disk.iterdir()} | {str(qemu_world.images.tools_disk)}
    assert files <= mine
    assert not [target for target in targets if str(other_home.path) in target]
    access = {}
    for fd in os.listdir(f"/proc/{machine.pid}/fd"):
        target = os.readlink(f"/proc/{machine.pid}/fd/{fd}")
        if target in files:
            flags = re.search(r"flags:\s+(\d+)", Path(f"/proc/{machine.pid}/fdinfo/{fd}").read_text())
            access.setdefault(Path(target).name, set()).add(int(flags[1], 8) & 3)
    assert access["base.img"] == {os.O_RDONLY} and access[qemu_world.images.tools_disk.name] == {os.O_RDONLY}


async def test_a_hypervisor_s_limits_are_its_group_s_or_its_own(qemu_world: World, pair):
    _, spec, machine = pair[0]
    wanted = launch.limits_of(spec.shape)
    limits = Path(f"/proc/{machine.pid}/limits").read_text()
    assert re.search(r"Max core file size\s+0\s+0", limits)
    assert re.search(rf"Max processes\s+{launch.MAX_TASKS}\s+{launch.MAX_TASKS}", limits)
    kind = (await qemu_world.driver().capabilities()).cgroups
    groups = Path(f"/proc/{machine.pid}/cgroup").read_text()
    if kind == "rlimits":
        assert re.search(r"Max address space\s+\d+", limits)
    else:
        assert groups.count(f"berth-{qemu_world.instance}/{spec.machine_id}") >= 1
    if kind == "v1":
        where = re.search(r":memory:(.*)", groups)[1]
        assert int(Path(f"/sys/fs/cgroup/memory{where}/memory.limit_in_bytes").read_text()) == wanted.memory_bytes
    assert resource.getrlimit(resource.RLIMIT_CORE) is not None


async def test_only_its_maker_reaches_a_machine_s_sockets(pair):
    home, *_ = pair[0]
    for name in ("agent.sock", "qmp.sock"):
        found = (home.run / name).stat()
        assert found.st_mode & 0o777 == 0o600 and found.st_uid == os.geteuid()


async def test_two_machines_of_one_template_share_its_memory_and_nothing_random(qemu_world: World, pair):
    guests: list[Guest] = [await qemu_world.guest(machine) for *_, machine in pair]
    said = [await guest.run("head -c 32 /dev/urandom | sha256sum; cat /etc/machine-id; "
                            "cat /proc/sys/kernel/random/uuid") for guest in guests]
    for one, other in zip(*(text.splitlines() for text in said), strict=True):
        assert one != other
    for *_, machine in pair:
        resident, proportional = memory_of(machine.pid)
        assert proportional < resident, "some of what is resident is shared"
    shared = [shared_bytes(machine.pid) for *_, machine in pair]
    assert min(shared) > 8 << 20


def memory_of(pid: int) -> tuple[int, int]:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return tuple(int(re.search(rf"^{name}:\s+(\d+) kB", rollup, re.M)[1]) << 10 for name in ("Rss", "Pss"))


def shared_bytes(pid: int) -> int:
    """What of the guest's memory is another machine's, too."""
    total, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = "/memfd:berth-base.mem" in line
        elif inside and line.startswith(("Shared_Clean", "Shared_Dirty")):
            total += int(line.split()[1]) << 10
    return total


async def test_a_guest_cannot_change_memory_that_others_share(qemu_world: World, pair):
    """The hypervisor itself cannot: the base is sealed, for this process as for every other."""
    *_, machine = pair[0]
    fd = os.open(f"/proc/{machine.pid}/fd/6", os.O_RDWR)
    try:
        for attempt in (lambda: os.pwrite(fd, b"x", 0), lambda: os.ftruncate(fd, 0)):
            with pytest.raises(OSError, match="not permitted"):
                attempt()
    finally:
        os.close(fd)


async def test_a_guest_that_takes_all_its_memory_loses_the_greedy_program_and_nothing_else(qemu_world: World, pair):
    """Field case 098: the limit of the body leaves room beside the guest's memory, so the guest's own killer acts."""
    _, spec, machine = pair[0]
    pid = machine.pid
    guest = await qemu_world.guest(machine)
    assert await guest.run("tail /dev/zero; echo ended $?") == "ended 137"
    assert await guest.run("head -c 30000000 /dev/zero | wc -c") == "30000000", "and there is memory again"
    assert machine.body.alive() and machine.pid == pid
    assert launch.limits_of(spec.shape).memory_bytes > spec.shape.memory_mib << 20


async def test_a_guest_that_nobody_lets_out_is_refused_everything_at_once(qemu_world: World, pair):
    """Its way leads to its own tap, and that namespace has no other."""
    guest = await qemu_world.guest(pair[0][2])
    assert "default via 10.77.0.1" in await guest.run("ip -o -4 route show")
    refused = await guest.run("for to in 203.0.113.10/443 10.77.0.1/22; do "
                              "bash -c \"echo >/dev/tcp/$to\" 2>&1; done; true")
    assert refused.count("line 1") == refused.count("bash: connect: Connection refused") == 2, refused
    name = netns_name(qemu_world.instance, pair[0][1].machine_id)
    links = subprocess.check_output(["ip", "-n", name, "-br", "link"], text=True).split("\n")
    assert sorted(line.split()[0] for line in links if line) == ["lo", "tap0"]
    assert subprocess.check_output(["ip", "-n", name, "route", "show", "default"], text=True) == ""


async def test_a_guest_whose_host_disk_is_full_stands_still_and_goes_on_by_itself(qemu_world: World, tmp_path: Path,
                                                                                 monkeypatch):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", small], check=True)
    driver = qemu_world.driver()
    home, spec = qemu_world.machine()
    home = type(home)(small / spec.machine_id)
    filler = small / "filler"
    try:
        machine = await driver.launch(home, spec, silent)
        guest = await qemu_world.guest(machine)
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, space.free_bytes(small) - (8 << 20))
        exec_id = await guest.start("head -c 60000000 /dev/zero > big && sync && sha256sum big > done && sync")
        assert exec_id
        await until(lambda: machine.condition == "host_disk_full")
        assert machine.body.alive()
        filler.unlink()
        await until(lambda: machine.condition == "")
        async with asyncio.timeout(90):
            while "big" not in await guest.run("cat done 2>/dev/null; true"):
                await asyncio.sleep(0.2)
        assert await guest.run("sha256sum -c done") == "big: OK"
    finally:
        await driver.destroy(home)
        filler.unlink(missing_ok=True)
        subprocess.run(["umount", "-l", small], check=True)
