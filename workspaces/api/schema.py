"""The OpenAPI document: what every operation has in common, and the gateway's part. Called by drf-spectacular.

Views name their parameters with the constants here.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from workspaces.api import openapi_words

PROBLEM_REF = {"$ref": "#/components/schemas/Problem"}
#: What any operation behind the gateway may answer, besides what its view says.
PROBLEM_STATUSES = (400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 503, 507)


def query_parameter(name: str, kind: Any, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=description, **more)


LIST = [
    query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}, "How many at most"),
    query_parameter("cursor", OpenApiTypes.STR, "From `next`"),
]
WAIT = [
    query_parameter("wait", {"type": "string", "enum": ["true", "false"]}, "Answer when it is so"),
    query_parameter("timeout_s", {"type": "number", "minimum": 0, "maximum": 300, "default": 30},
                    "How long to wait; too short is no error"),
]
PURGE = query_parameter("purge", {"type": "string", "enum": ["true", "false"]}, "End the time of grace now")
IDEMPOTENT = OpenApiParameter(
    "Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER, description="The same key and body within 24 h gives the same object")
WORKSPACE_FILTERS = [
    query_parameter("state", OpenApiTypes.STR, "Only those in this state; `deleted` shows the trash",
                    enum=["creating", "running", "standby", "stopped", "failed", "deleted", "waking", "parking",
                          "stopping", "restoring", "deleting"]),
    query_parameter("name", OpenApiTypes.STR, "Only this name"),
    query_parameter("owner", OpenApiTypes.STR, "Only this person's"),
    query_parameter("image", OpenApiTypes.STR, "Only this image"),
    query_parameter("id", OpenApiTypes.STR, "Only this one"),
    *(query_parameter(name, {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}, "Only those of this size")
      for name in ("cpus", "memory_mib", "disk_gib")),
    query_parameter("label.KEY", OpenApiTypes.STR, "Only those whose label KEY has this value"),
]


class BerthSchema(AutoSchema):
    """Lists are `{"results","next"}`, and every operation may answer with a problem."""

    def get_tags(self) -> list[str]:
        words = [word for word in self.path.removeprefix("/api/v1/").split("/") if word and not word.startswith("{")]
        return words[:1] or ["berth"]

    def _get_response_for_code(self, serializer: Any, status_code: str, media_types: Any = None,
                               direction: Any = "response") -> Any:
        many = getattr(serializer, "many", False)
        said = super()._get_response_for_code(  # type: ignore[no-untyped-call]
            serializer, status_code, media_types, direction)
        if many:
            for content in said.get("content", {}).values():
                content["schema"] = {
                    "type": "object", "required": ["results", "next"],
                    "properties": {"results": content["schema"], "next": {"type": "string", "nullable": True}}}
        return said

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None:
            for status in (*PROBLEM_STATUSES, *getattr(self.view, "may_answer", ())):
                operation["responses"].setdefault(str(status), {
                    "description": openapi_words.refusal(status),
                    "content": {"application/problem+json": {"schema": PROBLEM_REF}}})
        return operation


def merge_gateway(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Adds the problem's schema and what the gateway answers by itself (execs, files, metrics, health)."""
    result["paths"] = {_with_id(path): _with_id_parameter(item) for path, item in result["paths"].items()}
    components = result.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = openapi_words.PROBLEM
    for name, part in gateway_fragment().get("components", {}).items():
        components.setdefault(name, {}).update(part)
    for path, operations in gateway_fragment().get("paths", {}).items():
        result["paths"].setdefault(path, {}).update(operations)
    result["paths"] = dict(sorted(result["paths"].items()))
    for item in result["paths"].values():
        for operation in item.values():
            _show(operation)
    return result


def _show(operation: dict[str, Any]) -> None:
    """The example of a request and of its answer; and where no credentials are asked for, that they are not."""
    operation.setdefault("security", [])
    name = operation["operationId"]
    shown = [(operation.get("requestBody", {}), openapi_words.EXAMPLES.get(name)),
             (operation["responses"].get("200", {}), openapi_words.ANSWERS.get(name))]
    for part, example in shown:
        content = part.get("content", {}).get("application/json")
        if content is not None and example is not None:
            content["example"] = example


def _with_id(path: str) -> str:
    """Outside, what is in the path is called `{id}`, whichever process answers."""
    return path.replace("{workspace_id}", "{id}").replace("{token_id}", "{id}").replace(
        "{checkpoint_id}", "{cid}").replace("{hold_id}", "{hid}").replace("{approval_id}", "{aid}")


def _with_id_parameter(item: dict[str, Any]) -> dict[str, Any]:
    for operation in item.values():
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path" and parameter["name"] == "scope":
                parameter["schema"] = {"type": "string", "pattern": "^(default|group:.{1,150}|user:.{1,150})$"}
            elif parameter["in"] == "path" and parameter["name"] == "user":
                parameter["schema"] = {"type": "string", "pattern": "^[^/]{1,150}$"}
            elif parameter["in"] == "path" and parameter["name"] == "host":
                parameter["schema"] = {"type": "string", "pattern": "^[^/]{1,40}$"}
            elif parameter["in"] == "path":
                names = {"checkpoint_id": "cid", "hold_id": "hid", "approval_id": "aid"}
                parameter["name"] = names.get(parameter["name"], "id")
                parameter["schema"] = {"type": "string", "pattern": "^[a-z2-7]{20}$"}
    return item


def gateway_fragment() -> dict[str, Any]:
    """`paths` and `components` of the gateway's own operations."""
    from workspaces.gateway import openapi

    return dict(openapi.FRAGMENT)
