"""JSON in, strictly: size-bounded, no NaN, no duplicate surprises, nothing nested beyond reason. Called by DRF."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from django.conf import settings
from rest_framework.parsers import BaseParser

from workspaces.api.errors import Problem


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None,
              parser_context: Mapping[str, Any] | None = None) -> Any:
        """Raises Problem too_large or malformed."""
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise Problem("too_large", f"A JSON body has at most {limit} bytes.")
        try:
            return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        except RecursionError as error:
            raise Problem("malformed", "The body is nested too deeply.") from error
        except ValueError as error:
            raise Problem("malformed", f"The body is no JSON: {error}"[:200]) from error


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")
