"""The admins' doors: `berth.admin`, for callers who wait and for those who await. Put together by `client`."""

from __future__ import annotations

from berth_client.act import Awaiting, Waiting
from berth_client.acts.admin import AuditActs, HostsActs, PeopleActs, PoliciesActs
from berth_client.hands import SyncHand
from berth_client.hands_async import AsyncHand
from berth_client.wire import API


class Hosts(HostsActs, Waiting):
    """Where machines run."""


class People(PeopleActs, Waiting):
    """Everybody."""


class Policies(PoliciesActs, Waiting):
    """Idle, retention, quota: what is set, for whom."""


class Audit(AuditActs, Waiting):
    """Who did what."""


class AsyncHosts(HostsActs, Awaiting):
    """Where machines run."""


class AsyncPeople(PeopleActs, Awaiting):
    """Everybody."""


class AsyncPolicies(PoliciesActs, Awaiting):
    """Idle, retention, quota: what is set, for whom."""


class AsyncAudit(AuditActs, Awaiting):
    """Who did what."""


class Admin:
    """Needs a token with the scope `admin`."""

    def __init__(self, hand: SyncHand) -> None:
        self.hosts = Hosts(hand, API)
        self.people = People(hand, API)
        self.policies = Policies(hand, API)
        self.audit = Audit(hand, API)


class AsyncAdmin:
    """Needs a token with the scope `admin`."""

    def __init__(self, hand: AsyncHand) -> None:
        self.hosts = AsyncHosts(hand, API)
        self.people = AsyncPeople(hand, API)
        self.policies = AsyncPolicies(hand, API)
        self.audit = AsyncAudit(hand, API)
