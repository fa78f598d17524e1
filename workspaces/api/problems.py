"""Every refusal of DRF's world becomes `application/problem+json`. Called by DRF for exceptions of views; asks
`api.errors` for status and title. What it does not know stays an exception: a 500 with a trace in the log.
"""

from __future__ import annotations

import math
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from sandboxes.errors import SandboxError
from workspaces.api.errors import Problem, body

_SIMPLE: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.ParseError, "malformed"),
    (exceptions.AuthenticationFailed, "unauthenticated"),
    (exceptions.NotAuthenticated, "unauthenticated"),
    (exceptions.PermissionDenied, "forbidden"),
    (exceptions.NotFound, "not_found"),
    (exceptions.MethodNotAllowed, "method_not_allowed"),
    (exceptions.NotAcceptable, "not_acceptable"),
    (exceptions.UnsupportedMediaType, "unsupported_media_type"),
    (Http404, "not_found"),
    (PermissionDenied, "forbidden"),
    (RequestDataTooBig, "too_large"),
    (SuspiciousOperation, "invalid"),
)


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    problem = as_problem(error)
    if problem is None:
        return None
    response = Response(body(problem.code, problem.detail, **problem.extra), status=problem.status,
                        content_type="application/problem+json")
    if problem.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    if "retry_after_s" in problem.extra:
        response["Retry-After"] = str(math.ceil(problem.extra["retry_after_s"]))
    if isinstance(error, exceptions.MethodNotAllowed):
        response["Allow"] = ", ".join(getattr(context.get("view"), "allowed_methods", []))
    return response


def as_problem(error: Exception) -> Problem | None:
    """None: nothing that a caller did; let it be seen."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, SandboxError):
        return Problem(error.code, error.detail, reason=error.reason, retry_after_s=error.retry_after_s)
    if isinstance(error, exceptions.ValidationError):
        return Problem("invalid", "Some fields are not valid.", errors=flattened(error.detail))
    if isinstance(error, OperationalError):
        return _of_the_database(str(error))
    for cls, code in _SIMPLE:
        if isinstance(error, cls):
            return Problem(code, _said(error))
    return None


def _of_the_database(said: str) -> Problem | None:
    """What passes by itself or by making space has a name (SQLite's words, PostgreSQL's); the rest is our fault."""
    if "disk is full" in said or "No space left" in said:
        return Problem("disk_full", "The disk of the database is full; nothing was changed.")
    if "is locked" in said:
        return Problem("unavailable", "The database is busy; nothing was changed.", retry_after_s=1)
    return None


def _said(error: Exception) -> str:
    return str(error.detail) if isinstance(error, exceptions.APIException) else ""


def flattened(detail: Any, path: str = "") -> dict[str, list[str]]:
    """`{"env": {"A": ["…"]}}` becomes `{"env.A": ["…"]}`: one level, easy to show beside a field."""
    if isinstance(detail, dict):
        return {k: v for key, inner in detail.items() for k, v in flattened(inner, _join(path, str(key))).items()}
    if isinstance(detail, list) and any(isinstance(item, dict) for item in detail):
        return {k: v for n, inner in enumerate(detail) for k, v in flattened(inner, _join(path, str(n))).items()}
    messages = detail if isinstance(detail, list) else [detail]
    return {path or "body": [str(message) for message in messages]} if messages else {}


def _join(path: str, key: str) -> str:
    if key == "non_field_errors":
        return path
    return f"{path}.{key}" if path else key
