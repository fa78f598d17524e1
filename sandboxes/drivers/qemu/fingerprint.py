"""What a memory image depends on, as one word. Another word: the machine starts cold from the same disk instead.

Called by `templates.py` and `snapshot.py`. Pure but for hashing what it is given.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from sandboxes.drivers.qemu.argv import BodyPlan, arguments
from sandboxes.drivers.qemu.facts import HostFacts


@dataclass(frozen=True)
class Ingredients:
    qemu_version: str
    argv_hash: str
    boot_files: str
    accelerator: str
    cpu_model: str
    cpu_flags_hash: str
    tsc_khz: int


def ingredients(plan: BodyPlan, boot_files: str, facts: HostFacts) -> Ingredients:
    """The argv is hashed for a fixed chain and label: neither a disk's depth nor a machine's name is in its memory."""
    shape_argv = arguments(BodyPlan(plan.shape, plan.accelerator, kernel_words=plan.kernel_words))
    return Ingredients(
        qemu_version=facts.qemu_version, argv_hash=_hash("\0".join(shape_argv)), boot_files=boot_files,
        accelerator=plan.accelerator.kind, cpu_model=facts.cpu_model, cpu_flags_hash=_hash(facts.cpu_flags),
        tsc_khz=plan.accelerator.tsc_khz)


def fingerprint(parts: Ingredients) -> str:
    return _hash(json.dumps(asdict(parts), sort_keys=True))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
