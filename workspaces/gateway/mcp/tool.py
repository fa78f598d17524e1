"""What a tool is: a name, words for a model, arguments with a schema, hints, a scope, and one function. Holds no tool.

Used by the tools' modules and by `server`. Arguments are closed: a word that a tool does not know is refused by name.
A session pinned to one workspace sees the same tools without the argument `workspace`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from mcp.types import Tool as Described
from mcp.types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as BadArguments

from workspaces.actors import Actor
from workspaces.gateway.mcp.inside import Inside, refusal

Data = dict[str, Any]

WorkspaceId = Annotated[str, Field(pattern="^[a-z2-7]{20}$", description="The workspace's id")]
ObjectId = Annotated[str, Field(pattern="^[a-z2-7]{20}$")]
IdempotencyKey = Annotated[str | None, Field(
    min_length=1, max_length=255, pattern="^[ -~]+$",
    description="Say the same word again when you repeat a call whose answer you did not get: it then happens once")]


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class InWorkspace(Arguments):
    workspace: WorkspaceId | None = None


@dataclass(frozen=True)
class Session:
    """Who calls, and where to. Lives as long as one HTTP request."""

    api: Inside
    actor: Actor
    pin: str | None

    def base(self, given: InWorkspace) -> str:
        """The API's address of the workspace that is meant."""
        if self.pin is not None and given.workspace not in (None, self.pin):
            raise refusal("invalid", f"This session is pinned to the workspace {self.pin}.",
                          errors={"workspace": ["Leave it out: the session is pinned to one workspace."]})
        workspace = self.pin or given.workspace
        if workspace is None:
            raise refusal("invalid", "Say which workspace.", errors={"workspace": ["This field is required."]})
        return f"/api/v1/workspaces/{workspace}"


@dataclass(frozen=True)
class Said:
    """A tool's answer: for reading, and as data. They say the same."""

    text: str
    data: Data = field(default_factory=dict)


Run = Callable[[Session, Any], Awaitable[Said]]


@dataclass(frozen=True)
class Tool:
    name: str
    title: str
    description: str
    scope: str
    arguments: type[Arguments]
    run: Run
    hints: ToolAnnotations
    #: Of what is beyond one workspace; a pinned session does not have it.
    beyond: bool = False

    def described(self, pinned: bool) -> Described:
        return Described(name=self.name, title=self.title, description=self.description,
                         input_schema=schema_of(self.arguments, pinned), annotations=self.hints)

    def parsed(self, given: Data) -> Arguments:
        try:
            return self.arguments.model_validate(given)
        except BadArguments as bad:
            errors: dict[str, list[str]] = {}
            for one in bad.errors(include_url=False, include_input=False):
                errors.setdefault(".".join(str(part) for part in one["loc"]) or "arguments", []).append(one["msg"])
            raise refusal("invalid", "Some arguments are not valid.", errors=errors) from None


READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
SETTLES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
REPLACES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
#: A command may do anything, to the outside too.
ANYTHING = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)


def schema_of(arguments: type[Arguments], pinned: bool) -> Data:
    """Its JSON Schema in few words: no titles, no nulls; `workspace` is required, or not there."""
    said: Data = _plain(arguments.model_json_schema())
    properties = said.setdefault("properties", {})
    if issubclass(arguments, InWorkspace):
        if pinned:
            properties.pop("workspace")
        else:
            said["required"] = ["workspace", *said.get("required", [])]
    return said


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {k: _plain(v) for k, v in value.items()
            if not (k == "title" and isinstance(v, str)) and not (k == "default" and v is None)}
    options = [one for one in kept.get("anyOf", []) if one != {"type": "null"}]
    if "anyOf" in kept and len(options) == 1:
        del kept["anyOf"]
        return {**options[0], **kept}
    if "anyOf" in kept:
        kept["anyOf"] = options
    return kept
