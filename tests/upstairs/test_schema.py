"""The OpenAPI document is whole, and true: generated requests meet no 5xx and no undocumented answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core import signals
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks

from tests.upstairs.conftest import HOST, actor, make, person
from workspaces import checkpoints, tokens
from workspaces.actors import SCOPES
from workspaces.gateway.openapi import FRAGMENT
from workspaces.models import Checkpoint


@pytest.fixture(scope="session")
def document(django_db_setup: None) -> dict[str, Any]:
    return Client().get("/api/v1/schema/", headers={"host": HOST}).json()


def test_the_schema_names_every_operation_once_and_every_reference_resolves(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for item in document["paths"].values() for operation in item.values()
             if isinstance(operation, dict)]
    assert len(names) == len(set(names)) and len(names) > 30
    text = str(document)
    for reference in {part.split("'")[0] for part in text.split("'$ref': '")[1:]}:
        target: Any = document
        for word in reference.removeprefix("#/").split("/"):
            target = target[word]


def test_the_gateways_operations_are_part_of_the_schema(document: dict[str, Any]) -> None:
    for path, operations in FRAGMENT["paths"].items():
        assert set(operations) <= set(document["paths"][path])


def test_generation_gives_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    from django.core.management import call_command

    call_command("spectacular", "--fail-on-warn", "--file", "/dev/null")
    assert "arning" not in capsys.readouterr().err


@pytest.fixture
def one_connection() -> Iterator[None]:
    """As Django's own test client does: the test's transaction outlives each request."""
    for signal in (signals.request_started, signals.request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (signals.request_started, signals.request_finished):
        signal.connect(close_old_connections)


@pytest.mark.django_db
@pytest.mark.usefixtures("one_connection")
def test_generated_requests_meet_no_5xx_and_no_undocumented_answer(document: dict[str, Any]) -> None:
    """Every operation that Django answers, with right and with wrong requests, as an admin."""
    from django.core.wsgi import get_wsgi_application

    user = person("ann", admin=True)
    workspace = make(user)
    _, secret = tokens.create(user, "schemathesis", SCOPES)
    checkpoint = checkpoints.create(actor(user), workspace, {"name": "v1"})
    Checkpoint.objects.update(state="ready")
    there = {"id": workspace.pk, "cid": checkpoint.pk}
    own = {**document, "paths": {path: item for path, item in document["paths"].items()
                                 if path not in FRAGMENT["paths"] and "session" not in path}}
    schema = schemathesis.openapi.from_dict(own)
    schema.app = get_wsgi_application()
    walked, statuses = 0, set()
    for result in schema.get_all_operations():
        statuses |= _hammer(result.ok(), secret, there)
        walked += 1
    assert walked >= 21
    assert {200, 201, 202, 400, 404} <= statuses, "right and wrong requests were both made"


def _hammer(operation: Any, secret: str, there: dict[str, str]) -> set[int]:
    """Generated cases of one operation; half of them with ids that are there. The statuses that were answered."""
    seen, statuses = iter(range(10**6)), set()

    @settings(max_examples=8, deadline=None, database=None, derandomize=True,
              phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=strategy_of(operation))
    def one(case: Any) -> None:
        if "{id}" in operation.path and "tokens" not in operation.path and next(seen) % 2:
            case.path_parameters = {**case.path_parameters, **there}
        response = case.call(headers={"Authorization": f"Bearer {secret}", "Host": HOST})
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    one()
    return statuses


def strategy_of(operation: Any) -> Any:
    return operation.as_strategy(generation_mode=GenerationMode.POSITIVE) | operation.as_strategy(
        generation_mode=GenerationMode.NEGATIVE)


CHECKS = [checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
          checks.response_schema_conformance]


def test_the_page_for_people_shows_every_operation_and_runs_no_script(document: dict[str, Any]) -> None:
    answer = Client().get("/api/v1/docs/", headers={"host": HOST})
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/html; charset=utf-8")
    text = answer.content.decode()
    for item in document["paths"].values():
        for operation in item.values():
            assert f'id="{operation["operationId"]}"' in text
    assert "<script" not in text and " style=" not in text and "onclick" not in text
