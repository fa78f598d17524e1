"""`./berth doctor`: what this machine can do, each fact with what to do about it. Exit 0 when workspaces can run.

Asks the driver's own probes for what the driver decides (accelerator, cgroups), so that doctor and hostd never
disagree; asks the system for the rest. Changes nothing that stays: a namespace it tries is gone afterwards.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ops.instance import ROOT, Instance, from_environment
from sandboxes.drivers.qemu import facts, kvm_probe
from sandboxes.guest.image import boot
from sandboxes.linux import doors

GIB = 1024**3
#: A guest image, its build and a few workspaces.
DISK_WANTED_GIB = 8
MEMORY_WANTED_GIB = 1
DISPLAY_CLASSES = ("0x0300", "0x0302", "0x1200")


@dataclass(frozen=True)
class Fact:
    """`verdict`: "ok"; "note" (works, could be better); "stop" (workspaces cannot run)."""

    name: str
    verdict: str
    value: str
    advice: str = ""


def doctor(as_json: bool) -> int:
    instance = from_environment()
    seen = examine(instance)
    able = all(fact.verdict != "stop" for fact in seen)
    if as_json:
        print(json.dumps({"can_run": able, "facts": [asdict(fact) for fact in seen]}, indent=2))
    else:
        print("\n".join(as_text(fact) for fact in seen))
        print("\nWorkspaces can run here." if able else "\nWorkspaces cannot run here yet; see what is marked ✗.")
    return 0 if able else 1


def as_text(fact: Fact) -> str:
    sign = {"ok": "✓", "note": "!", "stop": "✗"}[fact.verdict]
    return f"{sign} {fact.name:<18} {fact.value}" + (f"\n{'':<21}→ {fact.advice}" if fact.advice else "")


def examine(instance: Instance) -> list[Fact]:
    return [*(look(instance) for look in LOOKS[:3]), *driver(instance), *(look(instance) for look in LOOKS[3:])]


def system(instance: Instance) -> Fact:
    release = {key: value.strip('"') for key, _, value in
               (row.partition("=") for row in Path("/etc/os-release").read_text().splitlines())}
    known = release.get("ID") == "debian" and release.get("VERSION_ID") in ("12", "13")
    return Fact("system", "ok" if known else "note", f"{release.get('PRETTY_NAME', '?')}, {os.uname().machine}, "
                f"{os.cpu_count()} processors", "" if known else "Berth is built and tested on Debian 12 and 13")


def root(instance: Instance) -> Fact:
    if os.geteuid() == 0:
        return Fact("rights", "ok", "root")
    return Fact("rights", "stop", "not root", "run ./berth up as root; every machine gets its own unprivileged user")


def packages(instance: Instance) -> Fact:
    wanted = [row.split()[0] for row in (ROOT / "ops" / "apt.txt").read_text().splitlines()
              if row.strip() and not row.startswith("#") and row.split()[1] in ("base", "run")]
    if shutil.which("dpkg-query") is None:
        return Fact("packages", "note", "no dpkg", f"install what gives: {', '.join(wanted)}")
    shown = subprocess.run(["dpkg-query", "-W", "-f=${Package}=${db:Status-Status}\n", *wanted],
                           capture_output=True, text=True, check=False).stdout.splitlines()
    missing = [name for name in wanted if f"{name}=installed" not in shown]
    if missing:
        return Fact("packages", "note", f"missing: {' '.join(missing)}", "./berth up installs them")
    return Fact("packages", "ok", f"{len(wanted)} of {len(wanted)} from ops/apt.txt")


def driver(instance: Instance) -> list[Fact]:
    """What the driver itself finds out: QEMU, the accelerator, cgroups, namespaces, taps."""
    return [Fact(found.name, "stop" if not found.ok else "note" if found.advice else "ok", found.fact, found.advice)
            for found in asyncio.run(facts.findings(kvm_refusal(instance)))]


def kvm_refusal(instance: Instance) -> str:
    """Why KVM cannot be used, "" when it can. The probe boots the guest's kernel, so it waits for the image."""
    kernel = next(iter(sorted(instance.images.glob(f"boot-*/{boot.KERNEL}"))), None)
    if kernel is not None and which("qemu-system-x86_64"):
        return asyncio.run(kvm_probe.refusal(instance.host_state / "qemu", kernel))
    if not Path("/dev/kvm").exists():
        return "there is no /dev/kvm"
    return "not tried yet: once the guest image is built, a probe guest decides"


def redis(instance: Instance) -> Fact:
    version = first_line("redis-server", "--version")
    if not version:
        return Fact("redis", "stop", "not found", "apt-get install redis-server, or ./berth up")
    return Fact("redis", "ok", " ".join(version.split()[:3]))


def image_tools(instance: Instance) -> Fact:
    missing = [name for name in ("mmdebstrap", "mke2fs", "cpio") if which(name) is None]
    if missing:
        return Fact("image tools", "stop", f"missing: {' '.join(missing)}",
                    "apt-get install mmdebstrap e2fsprogs cpio, or ./berth up")
    return Fact("image tools", "ok", "mmdebstrap, mke2fs, cpio")


def guest_image(instance: Instance) -> Fact:
    built = [*instance.images.glob("root-*/manifest.json")]
    if not built:
        return Fact("guest image", "note", "not built yet", "./berth up builds it once (3 to 5 minutes)")
    return Fact("guest image", "ok", f"{len(built)} built in {instance.images}")


def disk(instance: Instance) -> Fact:
    folder = next(path for path in (instance.data, *instance.data.parents) if path.exists())
    free_gib = shutil.disk_usage(folder).free / GIB
    text = f"{free_gib:.0f} GiB free at {instance.data}"
    if free_gib < 1:
        return Fact("disk", "stop", text, "free some space, or move the state: BERTH_DATA=/other/disk ./berth up")
    if free_gib < DISK_WANTED_GIB:
        return Fact("disk", "note", text, f"{DISK_WANTED_GIB} GiB are comfortable; BERTH_DATA moves the state")
    return Fact("disk", "ok", text)


def memory(instance: Instance) -> Fact:
    rows = dict(row.split(":", 1) for row in Path("/proc/meminfo").read_text().splitlines())
    free_gib = int(rows["MemAvailable"].split()[0]) / 1024**2
    if free_gib < MEMORY_WANTED_GIB:
        return Fact("memory", "note", f"{free_gib:.1f} GiB available", "a workspace of 512 MiB needs about 700 MiB")
    return Fact("memory", "ok", f"{free_gib:.1f} GiB available")


def network(instance: Instance) -> Fact:
    """A network namespace with a tap in it, made and dropped: what every machine needs."""
    if not Path("/dev/net/tun").exists():
        return Fact("network", "stop", "no /dev/net/tun", "modprobe tun; in a container pass the device through")
    tried = subprocess.run(["unshare", "--net", "ip", "tuntap", "add", "mode", "tap", "name", "doctor0"],
                           capture_output=True, text=True, check=False)
    if tried.returncode:
        return Fact("network", "stop", f"no tap in a new namespace: {tried.stderr.strip()[:120]}",
                    "run as root; in a container allow CAP_NET_ADMIN and CAP_SYS_ADMIN")
    return Fact("network", "ok", "a tap in a network namespace of its own works")


def way_out(instance: Instance) -> Fact:
    """The rules of a machine's namespace, put in force in one that is dropped at once."""
    if which("nft") is None:
        return Fact("network rules", "stop", "nft not found", "apt-get install nftables, or ./berth up")
    tried = subprocess.run(["unshare", "--net", "nft", "-f", "-"], input=doors.RULES, capture_output=True, text=True,
                           check=False)
    if tried.returncode:
        return Fact("network rules", "stop", f"refused: {tried.stderr.strip()[:120]}",
                    "load nf_tables, nft_redir, nft_reject_inet, nft_ct, nft_limit, nft_log and nfnetlink_log")
    return Fact("network rules", "ok", "nftables takes them; machines are let out by egressd alone")


def gpus(instance: Instance) -> Fact:
    found = [device for device in Path("/sys/bus/pci/devices").glob("*")
             if (device / "class").read_text()[:6] in DISPLAY_CLASSES] if Path("/sys/bus/pci").is_dir() else []
    if not found:
        return Fact("gpus", "ok", "none")
    grouped = [device for device in found if (device / "iommu_group").exists()]
    if len(grouped) < len(found):
        return Fact("gpus", "note", f"{len(found)}, {len(grouped)} with an IOMMU group",
                    "to lease them: intel_iommu=on (or amd_iommu=on) on the kernel command line")
    return Fact("gpus", "ok", f"{len(found)}, each with an IOMMU group")


def preview_domain(instance: Instance) -> Fact:
    """Previews are hostile pages: one that shares the app's registrable domain can set cookies for it."""
    from urllib.parse import urlsplit

    domain = os.environ.get("BERTH_PREVIEW_DOMAIN", "preview.localhost")
    app = urlsplit(os.environ.get("BERTH_PUBLIC_URL", "")).hostname or "localhost"
    if app == "localhost" or app.replace(".", "").isdigit():
        return Fact("preview domain", "ok", f"{domain}, app on {app}")
    if app.split(".")[-2:] == domain.split(".")[-2:]:
        return Fact("preview domain", "note", f"{domain} shares a registrable domain with {app}",
                    "give previews a domain of their own (BERTH_PREVIEW_DOMAIN), as githubusercontent.com does")
    return Fact("preview domain", "ok", f"{domain}, apart from {app}")


def first_line(*argv: str) -> str:
    """What a program says first, or "" when it is not there."""
    program = which(argv[0])
    if program is None:
        return ""
    done = subprocess.run([program, *argv[1:]], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else ""


def which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


LOOKS: tuple[Callable[[Instance], Fact], ...] = (
    system, root, packages, network, way_out, redis, image_tools, guest_image, disk, memory, gpus, preview_domain,
)
