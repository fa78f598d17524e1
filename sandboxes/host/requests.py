"""The bodies that hostd takes, field by field. Called by the handlers; pure.

Linux takes at most 128 KiB in one argument and about 2 MiB in arguments and environment together: what is over
is refused here, by name, and not half started in a guest.
"""

from __future__ import annotations

import re
import signal
from typing import Any

from sandboxes.errors import Invalid
from sandboxes.host import fields
from sandboxes.host.fields import REQUIRED, Wrong
from sandboxes.lifecycle import OperationKind
from sandboxes.spec import MachineSpec, Shape

OUTPUT_BYTES = 1024 * 1024
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
ARGUMENT_BYTES = 131_000
ARGUMENTS_BYTES = 1_600_000
EXEC_ID = re.compile(r"[a-z0-9]{20}")
SIGNAL = re.compile(r"SIG[A-Z0-9+-]{1,12}")
MACHINE_WORD = re.compile(r"[a-z0-9][a-z0-9.-]{0,31}")
_TIMEOUT_S_MAX = 30 * 86_400.0


def command(value: Any) -> list[str] | str:
    check = fields.text(ARGUMENT_BYTES)
    if isinstance(value, str):
        return str(check(value))
    if not isinstance(value, list) or not value:
        raise Wrong("must be text for a shell, or a list of at least one argument")
    check(value[0])
    later = fields.text(ARGUMENT_BYTES, empty=True)
    return [value[0], *(later(item) for item in value[1:])]


def terminal_size(value: Any) -> dict[str, int]:
    side = fields.integer(1, 1000)
    if not isinstance(value, dict) or set(value) != {"cols", "rows"}:
        raise Wrong("must be an object with cols and rows")
    return {"cols": side(value["cols"]), "rows": side(value["rows"])}


def _exec_id(value: Any) -> str:
    if not isinstance(value, str) or not EXEC_ID.fullmatch(value):
        raise Wrong("must be 20 of a-z and 0-9")
    return value


def _cwd(value: Any) -> str:
    checked: str = fields.text(4095)(value)
    return checked


def _stdin(value: Any) -> str:
    """Data, not an argument: NUL is welcome."""
    if not isinstance(value, str):
        raise Wrong("must be text")
    fields.encoded(value)
    return value


EXEC = {
    "exec_id": (_exec_id, REQUIRED),
    "command": (command, REQUIRED),
    "cwd": (_cwd, None),
    "env": (fields.environment, {}),
    "user": (fields.text(64), "user"),
    "stdin": (_stdin, None),
    "stdin_open": (fields.boolean, False),
    "tty": (terminal_size, None),
    "timeout_s": (fields.number(0.001, _TIMEOUT_S_MAX), None),
    "wait_s": (fields.number(0, 300), None),
    "wake_timeout_s": (fields.number(0, 600), None),
    "background": (fields.boolean, False),
    "max_output_bytes": (fields.integer(0, OUTPUT_BYTES_MAX), OUTPUT_BYTES),
}


def read_exec(body: Any) -> dict[str, Any]:
    request = fields.read(body, EXEC)
    given = request["command"]
    words = [given] if isinstance(given, str) else given
    words = [*words, *(f"{name}={value}" for name, value in request["env"].items())]
    if sum(len(word.encode()) + 9 for word in words) > ARGUMENTS_BYTES:
        said = f"together with env too long: at most {ARGUMENTS_BYTES} bytes"
        raise Invalid(f"command: {said}", errors={"command": said})
    if request["tty"] is not None and request["stdin"] is not None:
        raise Invalid("stdin: a terminal takes its input live", errors={"stdin": "not together with tty"})
    return request


def _spec(value: Any) -> MachineSpec:
    """Unknown fields pass: a newer control plane may talk to an older hostd."""
    if not isinstance(value, dict):
        raise Wrong("must be an object")
    shape = value.get("shape") or {}
    if not isinstance(shape, dict):
        raise Wrong("shape must be an object")
    known = {name: shape[name] for name in Shape.__dataclass_fields__ if name in shape}
    spec = MachineSpec.from_json({**value, "shape": known})
    for name, check in _SPEC.items():
        try:
            check(getattr(spec.shape if name in Shape.__dataclass_fields__ else spec, name))
        except Wrong as error:
            raise Wrong(f"{name} {error}") from error
    return spec


def _machine_word(value: Any) -> str:
    """It becomes part of an option list and of a folder's name."""
    if not isinstance(value, str) or not MACHINE_WORD.fullmatch(value):
        raise Wrong("must be a word of a-z, 0-9, . and -")
    return value


_SPEC: dict[str, fields.Check] = {
    "machine_id": fields.text(64), "generation": fields.integer(0, 2**53), "cpus": fields.integer(1, 256),
    "memory_mib": fields.integer(64, 4 * 1024 * 1024), "machine": _machine_word, "image": fields.text(128),
    "disk_gib": fields.integer(1, 65_536), "hostname": fields.text(63), "env": fields.environment,
}
_SOURCE = {"machine_id": (fields.text(64), REQUIRED), "checkpoint_id": (fields.text(64), REQUIRED)}
#: Beside what every operation has, kind by kind.
OPTIONS: dict[str, Any] = {
    "capture": {"checkpoint_id": (fields.text(64), REQUIRED), "memory": (fields.boolean, True)},
    "rollback": {"checkpoint_id": (fields.text(64), REQUIRED), "memory": (fields.boolean, True),
                 "boot": (fields.boolean, False)},
    "clone": {"source": (lambda value: _fields_of(value, _SOURCE), REQUIRED), "memory": (fields.boolean, True)},
    "drop": {"checkpoint_id": (fields.text(64), REQUIRED)},
    "collapse": {"max_depth": (fields.integer(2, 64), 8)},
}


def _fields_of(value: Any, known: Any) -> dict[str, Any]:
    try:
        return fields.read(value, known)
    except Invalid as error:
        raise Wrong(error.detail) from error


OPERATION = {
    "operation_id": (fields.text(100), REQUIRED),
    "kind": (fields.one_of(*(kind.value for kind in OperationKind)), REQUIRED),
    "generation": (fields.integer(0, 2**53), REQUIRED),
    "spec": (_spec, None),
    "grace_s": (fields.number(0, 600), 10.0),
}


def read_operation(body: Any, machine_id: str) -> dict[str, Any]:
    options = OPTIONS.get(str(body.get("kind")), {}) if isinstance(body, dict) else {}
    try:
        request = fields.read(body, {**OPERATION, **options})
    except TypeError as error:  # a spec without machine_id or generation
        raise Invalid("spec: machine_id and generation are required", errors={"spec": "incomplete"}) from error
    spec: MachineSpec | None = request["spec"]
    if spec is not None and (spec.machine_id, spec.generation) != (machine_id, request["generation"]):
        said = "its machine_id and generation must be the operation's"
        raise Invalid(f"spec: {said}", errors={"spec": said})
    request["options"] = {name: request.pop(name) for name in options}
    return request


SIGNALS_MOST, REALTIME = 64, 34  # Linux; the C library's SIGRTMIN


def signal_of(value: Any) -> str:
    """The name of "SIGINT", "INT", 2 or "2", as the agent is told it."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not SIGNAL.fullmatch(f"SIG{value.removeprefix('SIG')}"):
        raise Wrong("a name such as SIGINT, or a number from 1 to 64")
    word = value.removeprefix("SIG")
    if not (word.isascii() and word.isdigit()):
        return f"SIG{word}"
    number = int(word)
    if not 1 <= number <= SIGNALS_MOST:
        raise Wrong("a number from 1 to 64")
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - REALTIME}" if number > REALTIME else f"SIG{number}"


SIGNAL_BODY: dict[str, tuple[fields.Check, Any]] = {"signal": (signal_of, REQUIRED)}
RESIZE_BODY = {"cols": (fields.integer(1, 1000), REQUIRED), "rows": (fields.integer(1, 1000), REQUIRED)}


def read_signal(body: Any) -> str:
    name: str = fields.read(body, SIGNAL_BODY)["signal"]
    return name


def read_resize(body: Any) -> dict[str, int]:
    return fields.read(body, RESIZE_BODY)
