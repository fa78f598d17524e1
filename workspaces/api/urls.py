"""Addresses below /api/v1/ that Django answers. Read by config/urls. An id has one form, so others are no address."""

from __future__ import annotations

from django.urls import path, register_converter

from workspaces.api import (
    account,
    approvals,
    audit,
    checkpoints,
    document,
    holds,
    members,
    networks,
    operations,
    policies,
    shares,
    users,
    views,
)


class IdConverter:
    """20 characters of [a-z2-7]."""

    regex = "[a-z2-7]{20}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class ScopeConverter(IdConverter):
    """Whom a policy is for. A name may hold anything, a slash too."""

    regex = "default|group:.{1,150}|user:.{1,150}"


class NameConverter(IdConverter):
    """A person's name: no slash is in one."""

    regex = "[^/]{1,150}"


register_converter(IdConverter, "id")
register_converter(ScopeConverter, "scope")
register_converter(NameConverter, "name")

urlpatterns = [
    path("schema/", document.Schema.as_view()),
    path("docs/", document.page),
    path("workspaces", views.WorkspaceList.as_view()),
    path("workspaces/<id:workspace_id>", views.WorkspaceDetail.as_view()),
    path("workspaces/<id:workspace_id>/start", views.Start.as_view()),
    path("workspaces/<id:workspace_id>/stop", views.Stop.as_view()),
    path("workspaces/<id:workspace_id>/standby", views.Standby.as_view()),
    path("workspaces/<id:workspace_id>/restart", views.Restart.as_view()),
    path("workspaces/<id:workspace_id>/undelete", views.Undelete.as_view()),
    path("workspaces/<id:workspace_id>/fork", checkpoints.Fork.as_view()),
    path("workspaces/<id:workspace_id>/checkpoints", checkpoints.CheckpointList.as_view()),
    path("workspaces/<id:workspace_id>/checkpoints/<id:checkpoint_id>", checkpoints.CheckpointDetail.as_view()),
    path("workspaces/<id:workspace_id>/checkpoints/<id:checkpoint_id>/restore", checkpoints.Restore.as_view()),
    path("workspaces/<id:workspace_id>/holds", holds.HoldList.as_view()),
    path("workspaces/<id:workspace_id>/holds/<id:hold_id>", holds.HoldDetail.as_view()),
    path("workspaces/<id:workspace_id>/network", networks.NetworkDetail.as_view()),
    path("workspaces/<id:workspace_id>/shares", shares.ShareList.as_view()),
    path("workspaces/<id:workspace_id>/ports/<int:port>/share", shares.PortShare.as_view()),
    path("workspaces/<id:workspace_id>/members", members.MemberList.as_view()),
    path("workspaces/<id:workspace_id>/members/<name:user>", members.MemberDetail.as_view()),
    path("workspaces/<id:workspace_id>/break-glass", members.BreakGlass.as_view()),
    path("workspaces/<id:workspace_id>/approvals", approvals.ApprovalList.as_view()),
    path("workspaces/<id:workspace_id>/approvals/<id:approval_id>", approvals.ApprovalDetail.as_view()),
    path("workspaces/<id:workspace_id>/events", views.EventList.as_view()),
    path("tokens", account.TokenList.as_view()),
    path("tokens/<id:token_id>", account.TokenDetail.as_view()),
    path("me", account.Me.as_view()),
    path("session", account.SessionView.as_view()),
    path("session/setup", account.SessionSetup.as_view()),
    path("policies", policies.PolicyList.as_view()),
    path("policies/effective", policies.EffectiveView.as_view()),
    path("policies/dry-run", policies.DryRun.as_view()),
    path("policies/<scope:scope>", policies.PolicyDetail.as_view()),
    path("audit", audit.AuditList.as_view()),
    path("users", users.UserList.as_view()),
    path("users/<name:user>", users.UserDetail.as_view()),
    path("users/<name:user>/code", users.UserCode.as_view()),
    path("groups", users.GroupList.as_view()),
    path("hosts/<name:host>", operations.HostDetail.as_view()),
    path("images", operations.ImageList.as_view()),
    path("hosts", operations.HostList.as_view()),
]
