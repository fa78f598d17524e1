"""Acts that wait for a member, over REST: look at them, decide. Called by urls; asks selectors, then approvals.

What was asked for is content, so an admin who is no member sees none of it.
"""

from __future__ import annotations

from typing import ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces import approvals, selectors
from workspaces.api import queries, shapes
from workspaces.api.auditing import note
from workspaces.api.auth import actor_of
from workspaces.api.idempotency import once
from workspaces.api.schema import IDEMPOTENT, LIST, query_parameter
from workspaces.api.serializers_people import APPROVAL_KINDS, APPROVAL_STATES, ApprovalOut, DecisionIn
from workspaces.models_people import Approval, ApprovalState

FILTERS = [query_parameter("state", str, "Only those in this state", enum=list(APPROVAL_STATES)),
           query_parameter("kind", str, "Only of this kind", enum=list(APPROVAL_KINDS))]


class ApprovalList(APIView):
    scopes: ClassVar = {"GET": "workspaces:read"}

    @extend_schema(operation_id="approvals_list", summary="Acts of tokens that wait for a member, or did",
                   parameters=[*LIST, *FILTERS], responses=ApprovalOut(many=True))
    def get(self, request: Request, workspace_id: str) -> Response:
        row = selectors.workspace_for(actor_of(request), workspace_id)
        found = Approval.objects.filter(workspace=row)
        for name, words in (("state", APPROVAL_STATES), ("kind", APPROVAL_KINDS)):
            said = queries.text(request, name)
            if said is not None and said not in words:
                raise queries.refuse(name, f"One of {', '.join(words)}.")
            found = found if said is None else found.filter(**{name: said})
        if queries.text(request, "state") == ApprovalState.PENDING:
            found = found.filter(expires_at__gt=timezone.now())
        return Response(queries.page(request, found, lambda rows: [shapes.approval(one) for one in rows]))


class ApprovalDetail(APIView):
    scopes: ClassVar = {"GET": "workspaces:read", "POST": "approvals"}
    audits: ClassVar = {"POST": "approval.decide"}

    @extend_schema(operation_id="approvals_get", summary="One request", responses=ApprovalOut)
    def get(self, request: Request, workspace_id: str, approval_id: str) -> Response:
        row = selectors.workspace_for(actor_of(request), workspace_id)
        return Response(shapes.approval(approvals.find(row, approval_id)))

    @extend_schema(operation_id="approvals_decide", parameters=[IDEMPOTENT], request=DecisionIn, responses=ApprovalOut,
                   summary="Approve or deny, once. No token decides what it, or a token of its line, asked for")
    def post(self, request: Request, workspace_id: str, approval_id: str) -> Response:
        actor = actor_of(request)
        row = selectors.workspace_for(actor, workspace_id, needs="operator")
        form = DecisionIn(data=request.data)
        form.is_valid(raise_exception=True)
        decision, asked = form.validated_data["decision"], approvals.find(row, approval_id)
        note(request, decision=decision)

        def work() -> tuple[int, str, Response]:
            decided = approvals.decide(actor, asked, approve=decision == "approve")
            return 200, decided.pk, Response(shapes.approval(decided))

        return once(request, work, lambda pk: shapes.approval(approvals.find(row, pk)))
