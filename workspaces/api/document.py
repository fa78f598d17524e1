"""The OpenAPI document, for programs at /api/v1/schema/ and for people at /api/v1/docs/. Read by api/urls.

It is the same for everybody and as long as the process lives, so it is made once: making it costs more than most
requests, and nobody has to sign in to ask for it.
"""

from __future__ import annotations

import functools
import json
from itertools import groupby
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

Json = dict[str, Any]


@functools.cache
def document() -> Json:
    made: Json = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return made


class Schema(APIView):
    """The document, as JSON, for everybody."""

    public = True
    authentication_classes = ()
    renderer_classes = [OpenApiJsonRenderer]  # noqa: RUF012  (a list is what its base has)

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response(document())


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Every operation in plain words and without a script."""
    said = document()
    return render(request, "api.html", {"title": "Berth's API", "paragraphs": said["info"]["description"].split("\n\n"),
                                        "groups": groups(said)})


def groups(said: Json) -> list[tuple[str, list[Json]]]:
    """Operations under their tags, in the order of their addresses."""
    rows = [_row(path, method, operation) for path, item in said["paths"].items() for method, operation in item.items()]
    rows.sort(key=lambda row: row["tag"])
    return [(tag, list(found)) for tag, found in groupby(rows, key=lambda row: row["tag"])]


def _row(path: str, method: str, operation: Json) -> Json:
    answers = [{"status": status, "says": response.get("description", "")}
               for status, response in sorted(operation["responses"].items())]
    parameters = [{"name": one["name"], "where": one["in"], "says": one.get("description", "")}
                  for one in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    example = json.dumps(body["example"], indent=2) if "example" in body else ""
    return {"tag": operation["tags"][0], "name": operation["operationId"], "method": method.upper(), "path": path,
            "summary": operation.get("summary", ""), "description": operation.get("description", ""),
            "parameters": parameters, "answers": answers, "example": example}
