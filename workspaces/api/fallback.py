"""Answers outside of any view: no such address, a broken CSRF token, our own mistakes. Called by Django.

Programs get a problem+json; a person's browser on a page gets one plain sentence.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from workspaces.api.errors import STATUS, body


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, "not_found", "There is nothing at this address.")


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, "invalid", "This request cannot be answered.")


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, "forbidden", "")


def server_error(request: HttpRequest) -> HttpResponse:
    return _answer(request, "internal", "Something broke on our side. The log has the details.")


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    return _answer(request, "csrf_failed", "Reload the page and try again.")


def _answer(request: HttpRequest, code: str, detail: str, **extra: Any) -> HttpResponse:
    said = body(code, detail, **extra)
    if request.path.startswith(("/api/", "/readyz")):
        return JsonResponse(said, status=said["status"], content_type="application/problem+json")
    status, title = STATUS[code]
    return HttpResponse(f"{title}. {detail}\n", status=status, content_type="text/plain; charset=utf-8")
