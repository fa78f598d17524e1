"""Berth's Python client: persistent Linux microVM workspaces, driven from a program. What is named here is public.

Beside it stands `berth_client.cli`, which knows nothing that is not here. Needs httpx and websockets, and nothing of
the server's own code.
"""

__version__ = "0.1.0"

from berth_client.client import AsyncBerth, AsyncOneWorkspace, Berth, OneWorkspace
from berth_client.model import (
    Actor,
    Approval,
    Change,
    Checkpoint,
    Chunk,
    Ended,
    Event,
    Exec,
    File,
    Found,
    Hold,
    Match,
    Me,
    Member,
    Port,
    Share,
    Token,
    Unpacked,
    Workspace,
    Written,
)
from berth_client.model_admin import AuditEntry, DryRun, EffectivePolicy, Group, Host, Person, Policy
from berth_client.model_network import Attempt, Network
from berth_client.outcome import Exited, Killed, Lost, Outcome, Refused, Signaled, TimedOut, Unknown
from berth_client.problems import (
    AgentLost,
    ApprovalRefused,
    BadAnswer,
    BadConfig,
    BerthError,
    Conflict,
    DiskFull,
    ExecConflict,
    ExecFailed,
    FileChanged,
    FileConflict,
    GuestRefused,
    IdempotencyConflict,
    InvalidRequest,
    NameTaken,
    NoCapacity,
    NoSuchFile,
    NotAllowed,
    NotFound,
    NotSignedIn,
    PreconditionFailed,
    Problem,
    QuotaExceeded,
    RateLimited,
    ServerFault,
    StateConflict,
    StreamBroken,
    TooLarge,
    Unavailable,
    Unreachable,
    WaitTimeout,
    WorkspaceFailed,
)
from berth_client.retry import Retry
from berth_client.terminal import Terminal
from berth_client.tunnel import Tunnel

__all__ = [
    "Actor", "AgentLost", "Approval", "ApprovalRefused", "AsyncBerth", "AsyncOneWorkspace", "Attempt", "AuditEntry",
    "BadAnswer", "BadConfig", "Berth", "BerthError", "Change", "Checkpoint", "Chunk", "Conflict", "DiskFull", "DryRun",
    "EffectivePolicy", "Ended", "Event", "Exec", "ExecConflict", "ExecFailed", "Exited", "File", "FileChanged",
    "FileConflict", "Found", "Group", "GuestRefused", "Hold", "Host", "IdempotencyConflict", "InvalidRequest",
    "Killed", "Lost", "Match", "Me", "Member", "NameTaken", "Network", "NoCapacity", "NoSuchFile", "NotAllowed",
    "NotFound", "NotSignedIn", "OneWorkspace", "Outcome", "Person", "Policy", "Port", "PreconditionFailed", "Problem",
    "QuotaExceeded", "RateLimited", "Refused", "Retry", "ServerFault", "Share", "Signaled", "StateConflict",
    "StreamBroken", "Terminal", "TimedOut", "Token", "TooLarge", "Tunnel", "Unavailable", "Unknown", "Unpacked",
    "Unreachable", "WaitTimeout", "Workspace", "WorkspaceFailed", "Written", "__version__",
]
