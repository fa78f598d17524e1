"""JSON out, whatever the Accept header says: this API speaks one language. Called by DRF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request


class BerthJSONRenderer(JSONRenderer):
    """Compact UTF-8."""

    ensure_ascii = False


class OneLanguage(BaseContentNegotiation):
    """Never a 406: the first renderer, always. Bodies are parsed by their declared type alone."""

    def select_parser(self, request: Request, parsers: Sequence[BaseParser]) -> BaseParser | None:  # type: ignore[override]
        declared = (request.content_type or "").split(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == declared), None)

    def select_renderer(self, request: Request, renderers: Sequence[BaseRenderer],  # type: ignore[override]
                        format_suffix: str | None = None) -> tuple[Any, str]:
        return renderers[0], str(renderers[0].media_type)
