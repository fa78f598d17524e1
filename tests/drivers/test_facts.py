"""What a host can do is found out by trying, kept for one boot, and said with its reason."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sandboxes.drivers.qemu import facts, kvm_probe, tsc
from sandboxes.linux.processes import Completed, ProcessFailed
from sandboxes.spec import ImageSet


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "vmlinuz").write_bytes(b"a kernel")
    return tmp_path / "vmlinuz"


def answering(monkeypatch, answer) -> list[list[str]]:
    """The probe's QEMU answers `answer`; every other program is the host's."""
    asked: list[list[str]] = []
    real = kvm_probe.run

    async def run(argv, **more):
        if "-accel" not in argv:
            return await real(argv, **more)
        asked.append(argv)
        if isinstance(answer, Exception):
            raise answer
        return Completed(tuple(argv), 0, answer, b"")

    monkeypatch.setattr(kvm_probe, "run", run)
    return asked


@pytest.mark.parametrize(("answer", "says"), [
    (b"Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)", ""),
    (b"early boot, then nothing", "ended on KVM before"),
    (ProcessFailed(["q"], "no end within 12 s", None), "did not start on KVM within"),
    (ProcessFailed(["q"], "error: failed to set MSR 0x10a\nAssertion failed", -6), "Assertion failed"),
])
async def test_kvm_is_believed_only_when_a_guest_got_through_its_kernel_s_start(monkeypatch, tmp_path, kernel, answer,
                                                                                says):
    asked = answering(monkeypatch, answer)
    monkeypatch.setattr(kvm_probe, "DEVICE", Path("/dev/null"))
    refusal = await kvm_probe.refusal(tmp_path / "state", kernel)
    assert (refusal == "") == (says == "") and says in refusal
    assert await kvm_probe.refusal(tmp_path / "state", kernel) == refusal
    assert len(asked) == 1, "kept for this boot"
    kept = json.loads((tmp_path / "state" / "kvm-probe.json").read_text())
    kept["key"]["boot_id"] = "an earlier boot"
    (tmp_path / "state" / "kvm-probe.json").write_text(json.dumps(kept))
    await kvm_probe.refusal(tmp_path / "state", kernel)
    assert len(asked) == 2
    for cut_short in ('{"key": {"boot', "{}", "[]", ""):
        (tmp_path / "state" / "kvm-probe.json").write_text(cut_short)
        assert await kvm_probe.refusal(tmp_path / "state", kernel) == refusal


async def test_a_host_without_the_device_needs_no_probe(monkeypatch, tmp_path, kernel):
    asked = answering(monkeypatch, b"")
    monkeypatch.setattr(kvm_probe, "DEVICE", tmp_path / "none")
    assert "no" in await kvm_probe.refusal(tmp_path / "state", kernel)
    assert asked == []


@pytest.mark.vm
async def test_the_probe_decides_about_this_very_host(images: ImageSet, tmp_path: Path):
    """Whatever the answer is here, a machine booted by hand under KVM agrees with it."""
    refusal = await kvm_probe.refusal(tmp_path, images.kernel)
    by_hand = await asyncio.to_thread(_boots_by_hand, images.kernel)
    assert (refusal == "") == by_hand, refusal


def _boots_by_hand(kernel: Path) -> bool:
    argv = ["qemu-system-x86_64", "-M", "microvm,acpi=on", "-accel", "kvm", "-cpu", "host", "-m", "256", "-nodefaults",
            "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", str(kernel), "-append",
            "console=ttyS0 panic=-1"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return b"Unable to mount root fs" in done.stdout


def test_the_counter_s_frequency_agrees_with_the_clock():
    khz = [tsc.measure_khz(0.05) for _ in range(2)]
    assert abs(khz[0] - khz[1]) < khz[0] * tsc.TOLERANCE
    assert 100_000 < khz[0] < 20_000_000


def test_a_frequency_is_kept_while_it_is_the_same_counter():
    assert tsc.settle(2_596_150, 2_596_149) == 2_596_150
    assert tsc.settle(2_596_150, 3_000_000) == 3_000_000
    assert tsc.settle(None, 5) == 5


async def test_host_facts_are_the_same_when_asked_again(tmp_path: Path):
    first = await facts.host_facts(tmp_path)
    assert await facts.host_facts(tmp_path) == first
    for cut_short in ('{"boot_id": "x', "{}", "[]", ""):
        (tmp_path / "host-facts.json").write_text(cut_short)
        again = await facts.host_facts(tmp_path)
        assert again == replace(first, tsc_khz=again.tsc_khz), "measured anew, and nobody is kept from starting"
    assert "Debian" in first.qemu_version or first.qemu_version[0].isdigit()
    assert first.cpu_flags == " ".join(sorted(first.cpu_flags.split()))


async def test_doctor_s_findings_say_what_to_do_about_each_no():
    found = {finding.name: finding for finding in await facts.findings("the probe guest did not start")}
    assert set(found) == {"qemu", "kvm", "cgroups", "namespaces", "tap"}
    assert "the probe guest did not start" in found["kvm"].fact and found["kvm"].advice
    assert all(finding.ok or finding.advice for finding in found.values())
