"""The whole product against its own OpenAPI document: generated requests, right and wrong, over the public port.

No 5xx, no status and no body that is not described. Django's operations alone are walked in tests/upstairs/test_schema;
here is every one, with a real host (the fake driver's) behind it, so that what is refused deep down is seen too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.transport.serialization import serialize_binary

from tests.stack import Stack
from tests.upstairs.test_schema import CHECKS, strategy_of
from workspaces.api.errors import STATUS

pytestmark = pytest.mark.stack
EXAMPLES = 5
#: A person of its own, whose quota bounds what the generated requests may make.
WHO = "contract"
#: Nothing of what is tried is worth waiting for, and two forks show what twenty would.
MOST = {"wait_s": 0.2, "timeout_s": 0.2, "wake_timeout_s": 30, "count": 2}
#: What would end the very thing that the others are tried on, or the token they are tried with; each is sent to
#: ids that are not there, and once to one of its own at the end.
ENDING = {"workspaces_delete", "tokens_revoke"}
#: Endless by intent, or one person's way in (a browser's, with CSRF).
LEFT_OUT = {"session_create", "session_delete", "session_setup", "session_get"}
#: Waking or a capture may take its time on a busy machine, which is a described answer and no fault.
PATIENCE = {"wake_timeout", "no_capacity"}


@schemathesis.serializer("application/x-tar")
def tar(ctx: schemathesis.SerializationContext, value: Any) -> bytes:
    """Whatever is made up is sent as it is: most of it is no tar, which is the point."""
    return serialize_binary(value)


@pytest.fixture(scope="module")
def document(stack: Stack) -> dict[str, Any]:
    return dict(httpx.get(f"{stack.base_url}/api/v1/schema/", timeout=60).json())


@pytest.fixture(scope="module")
def there(stack: Stack) -> Iterator[dict[str, str]]:
    """Ids that are there: most refusals are only met behind one."""
    workspace = str(stack.workspace(WHO, name="contract")["id"])
    base = f"/api/v1/workspaces/{workspace}"
    with stack.client(WHO) as client:
        client.put(f"{base}/files/content", params={"path": "/home/user/a.txt"}, content=b"a")
        ended = client.post(f"{base}/execs", json={"command": "echo hello"}).json()["id"]
        point = client.post(f"{base}/checkpoints?wait=true", json={"name": "contract"}).json()["id"]
        hold = client.post(f"{base}/holds", json={"reason": "contract", "ttl_s": 3600}).json()["id"]
    yield {"id": workspace, "eid": ended, "cid": point, "hid": hold}
    with stack.client(WHO) as client:
        for row in client.get("/api/v1/workspaces?limit=200").json()["results"]:
            client.delete(f"/api/v1/workspaces/{row['id']}?purge=true")


def operations(document: dict[str, Any]) -> list[str]:
    return [operation["operationId"] for item in document["paths"].values() for operation in item.values()
            if operation["operationId"] not in LEFT_OUT]


def test_every_code_and_status_of_the_error_map_is_described_and_no_other(document: dict[str, Any]) -> None:
    problem = document["components"]["schemas"]["Problem"]["properties"]
    assert set(problem["code"]["enum"]) == set(STATUS)
    said: dict[int, str] = {}
    for item in document["paths"].values():
        for operation in item.values():
            for status, response in operation["responses"].items():
                if "application/problem+json" in response.get("content", {}):
                    said[int(status)] = response["description"]
    for code, (status, _title) in STATUS.items():
        # What no route of the API can answer: a socket's refusal, a wrong method, what a proxy between would say, and
        # what only a preview answers.
        if status not in (405, 406, 501, 504):
            assert f"`{code}`" in said[status], code


def test_every_operation_names_its_credentials_and_changes_show_an_example(document: dict[str, Any]) -> None:
    assert set(document["components"]["securitySchemes"]) >= {"token", "session"}
    without = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert "security" in operation, (method, path)
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is not None and "example" not in content:
                without.append(operation["operationId"])
    bodiless = {name for name in without if name.split("_")[-1] in ("start", "stop", "standby", "restart", "undelete")}
    assert set(without) == bodiless, "a request with a body is shown"


def test_generated_requests_to_the_whole_product_meet_nothing_that_is_not_described(stack: Stack, document, there
                                                                                    ) -> None:
    """Deterministic: the same requests in each run. Half of them go to ids that are there."""
    schema = schemathesis.openapi.from_dict(document)
    statuses: Counter[int] = Counter()
    walked, faults = [], []
    with httpx.Client(base_url=stack.base_url, timeout=60) as client:
        for result in schema.get_all_operations():
            operation = result.ok()
            name = operation.definition.raw["operationId"]
            if name not in LEFT_OUT:
                walked.append(name)
                try:
                    statuses += hammered(operation, name, stack, client, there)
                except (AssertionError, BaseExceptionGroup) as fault:
                    faults.append(f"{name}: {fault}")
    assert not faults, "\n\n".join(faults)
    assert sorted(walked) == sorted(operations(document))
    assert all(statuses[status] for status in (200, 201, 202, 204, 400, 404, 409)), statuses


def hammered(operation: Any, name: str, stack: Stack, client: httpx.Client, there: dict[str, str]) -> Counter[int]:
    statuses: Counter[int] = Counter()
    turns = iter(range(10**6))
    bearer = {"Authorization": f"Bearer {stack.token(WHO)}"}

    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
              phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=strategy_of(operation))
    def one(case: Any) -> None:
        if name not in ENDING and next(turns) % 2 == 0:
            known = {key: value for key, value in there.items() if key in (case.path_parameters or {})}
            if "/tokens/" not in operation.path:
                case.path_parameters = {**case.path_parameters, **known}
        hurried(case)
        response = case.call(base_url=stack.base_url, headers=bearer, timeout=90)
        statuses[response.status_code] += 1
        if response.status_code == 503 and response.json()["code"] in PATIENCE:
            return
        case.validate_response(response, checks=CHECKS)

    one()
    return statuses


def hurried(case: Any) -> None:
    """Long waits become short ones, where they are well formed."""
    for part in (case.query, case.body):
        if isinstance(part, dict):
            for key, most in MOST.items():
                value = part.get(key)
                if isinstance(value, int | float) and not isinstance(value, bool) and most < value <= 300:
                    part[key] = most
