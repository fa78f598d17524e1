"""From a connection's destination and first bytes to a passage or a refusal. Called by `relay`; asks `policy`.

    the address alone allows it ─────────────────────────────▶ passage
    else: what it claims (TLS, HTTP) or what the machine was told for that address
          a name that is allowed AND that this process resolved to this address ─▶ passage
          its time is over, or nobody asked here: asked now, once
          unknown, and members are to be asked: wait
    else ────────────────────────────────────────────────────▶ refusal, with a word of the log

An address that was only pretended (`names`) means its name; where it leads is resolved here and now.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from sandboxes.egress.daemon import claims
from sandboxes.egress.daemon.asks import Denied
from sandboxes.egress.daemon.claims import Claim, Unclear
from sandboxes.egress.daemon.upstream import NoSuchName, Unanswered
from sandboxes.egress.daemon.vetting import is_own
from sandboxes.egress.policy import Verdict, askable, decide

if TYPE_CHECKING:
    from sandboxes.egress.daemon.machine import Machine
    from sandboxes.egress.daemon.side import Side

#: How long who speaks first may take for it; and after which silence it is the server who does.
SPEAKS_WITHIN_S, SILENT_AFTER_S = 10.0, 0.3
#: Who lets the server speak first may take as long as he likes.
EVER_S = 1e9
TLS_PORT, HTTP_PORT = 443, 80


class Refusal(Exception):
    def __init__(self, reason: str, rule: str = "rules", name: str = "", kind: str = "") -> None:
        super().__init__(reason)
        self.reason, self.rule, self.name, self.kind = reason, rule, name, kind


@dataclass(frozen=True)
class Passage:
    """Where it leads and by what right. `requests`: each HTTP request is judged. `first_words`: the guest has not
    spoken yet; what it says first is judged when it does."""

    address: IPv4Address
    port: int
    name: str
    rule: str
    requests: bool = False
    first_words: bool = False


class Judge:
    """Of one connection."""

    def __init__(self, machine: Machine, guest: Side, address: IPv4Address, port: int) -> None:
        self._machine, self._guest, self.address, self.port = machine, guest, address, port

    def verdict(self, name: str | None, address: IPv4Address | None) -> Verdict:
        """By the document of this moment."""
        own = address is not None and is_own(address)
        return decide(self._machine.document, name, address, self.port, own=own)

    async def passage(self) -> Passage:
        """Raises Refusal."""
        meant = self._machine.names.meant(self.address)
        if meant is not None:
            return await self._to_meant(meant)
        whole = self.verdict(None, self.address)
        if whole.allowed:
            return Passage(self.address, self.port, self._told_name(), whole.rule, requests=whole.per_request)
        if whole.reason in ("mode", "private", "own_address"):
            raise Refusal(whole.reason, whole.rule, self._told_name())
        claim = await self._first_claim()
        try:
            return await self.by_claim(claim)
        except Refusal as refusal:
            if refusal.reason not in ("no_rule", "name_not_resolved"):
                raise
            return await self._asked(refusal)

    async def _first_claim(self) -> Claim:
        return await self.claim(SPEAKS_WITHIN_S if self.port in (TLS_PORT, HTTP_PORT) else SILENT_AFTER_S)

    async def claim(self, patience_s: float) -> Claim:
        """What its first bytes say; SILENT when none come in time. Who has begun has a while to end. Raises Refusal
        for what is not clear."""
        until = time.monotonic() + patience_s
        begun = False
        while True:
            try:
                claim = claims.of(bytes(self._guest.held))
            except Unclear as error:
                raise Refusal("protocol", kind=self._kind()) from error
            if claim is not None:
                return claim
            if self._guest.lost or self._guest.ended:
                return claims.OTHER if self._guest.held else claims.SILENT
            if self._guest.held and not begun:
                begun, until = True, time.monotonic() + SPEAKS_WITHIN_S
            self._guest.news.clear()
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await self._guest.news.wait()
            except TimeoutError:
                if self._guest.held:
                    raise Refusal("protocol", kind=self._kind()) from None
                return claims.SILENT

    async def by_claim(self, claim: Claim) -> Passage:
        """Raises Refusal."""
        if claim.hides_a_name:
            raise Refusal("ech", name=self._one(claim), kind=claim.kind)
        if claim.kind in ("tls", "http"):
            return await self._by_name(claim)
        return await self._by_address(claim)

    async def _by_name(self, claim: Claim) -> Passage:
        mismatch = "sni_mismatch" if claim.kind == "tls" else "host_mismatch"
        if len(claim.names) != 1:
            missing = "sni_missing" if claim.kind == "tls" and self._allowed_names() else mismatch
            raise Refusal(missing if self._allowed_names() else "no_rule", kind=claim.kind)
        name = self._one(claim)
        verdict = self.verdict(name, self.address)
        others = [told for told in self._allowed_names() if told != name]
        if not verdict.allowed:
            raise Refusal(mismatch if others else verdict.reason, verdict.rule, name, claim.kind)
        if name not in self._machine.names.fresh(self.address) and not await self._is_still(name):
            stale = name in self._machine.names.stale(self.address)
            raise Refusal("name_expired" if stale else mismatch if others else "name_not_resolved", verdict.rule, name,
                          claim.kind)
        return Passage(self.address, self.port, name, verdict.rule, requests=claim.kind == "http")

    async def _by_address(self, claim: Claim) -> Passage:
        """No name is said: one that the machine was told for this address counts."""
        allowed = self._allowed_names()
        if not allowed:
            allowed = [name for name in self._machine.names.stale(self.address)
                       if self.verdict(name, self.address).allowed and await self._is_still(name)]
        if not allowed:
            raise self._unknown()
        banner = bytes(self._guest.held[:4]) == claims.SSH_BANNER
        verdict = self.verdict(allowed[0], self.address)
        if verdict.per_request or self.port == HTTP_PORT or (self.port == TLS_PORT and not banner):
            raise Refusal("protocol", verdict.rule, allowed[0])
        return Passage(self.address, self.port, allowed[0], verdict.rule, first_words=claim.kind == "silent")

    def _unknown(self) -> Refusal:
        fresh, stale = self._machine.names.fresh(self.address), self._machine.names.stale(self.address)
        for name in fresh or stale:
            verdict = self.verdict(name, self.address)
            return Refusal(verdict.reason or "name_expired", verdict.rule, name)
        verdict = self.verdict(None, self.address)
        return Refusal(verdict.reason, verdict.rule)

    async def _to_meant(self, name: str) -> Passage:
        """The address was pretended. Its name is asked about, then resolved."""
        claim = await self._first_claim()
        if claim.hides_a_name:
            raise Refusal("ech", name=name, kind=claim.kind)
        if claim.kind in ("tls", "http") and claim.names != {name}:
            raise Refusal("sni_mismatch" if claim.kind == "tls" else "host_mismatch", name=name, kind=claim.kind)
        verdict = self.verdict(name, None)
        if not verdict.allowed:
            await self._wait_for_a_member(name, None, Refusal(verdict.reason, verdict.rule, name, claim.kind))
        self.address = await self._resolved(name, claim)
        verdict = self.verdict(name, self.address)
        if not verdict.allowed:
            raise Refusal(verdict.reason, verdict.rule, name, claim.kind)
        return Passage(self.address, self.port, name, verdict.rule, requests=claim.kind == "http",
                       first_words=claim.kind == "silent")

    async def _resolved(self, name: str, claim: Claim) -> IPv4Address:
        try:
            answer = await self._machine.world.upstream.addresses(name)
        except (NoSuchName, Unanswered) as error:
            raise Refusal("upstream_unreachable", name=name, kind=claim.kind) from error
        for address in answer.addresses:
            if self.verdict(name, address).allowed:
                self._machine.names.learn(name, [address], answer.ttl_s)
                return address
        raise Refusal("private" if answer.addresses else "upstream_unreachable", name=name, kind=claim.kind)

    async def _asked(self, refusal: Refusal) -> Passage:
        """A member may allow what no rule does: by its address, for no name of it was proven."""
        await self._wait_for_a_member("", self.address, refusal)
        verdict = self.verdict(None, self.address)
        if not verdict.allowed:
            raise Refusal(verdict.reason, verdict.rule, refusal.name, refusal.kind)
        return Passage(self.address, self.port, refusal.name, verdict.rule, requests=verdict.per_request)

    async def _wait_for_a_member(self, name: str, address: IPv4Address | None, refusal: Refusal) -> None:
        if not askable(self._machine.document, name or None, address, self.port):
            raise refusal
        self._machine.note(name, address, self.port, "tcp", "asked", refusal.rule, refusal.reason)
        try:
            await self._machine.asks.wait(name, address, self.port)
        except Denied as error:
            raise Refusal(error.reason, refusal.rule, refusal.name, refusal.kind) from error

    async def _is_still(self, name: str) -> bool:
        """Asked again: whether this name has this address now."""
        try:
            answer = await self._machine.world.upstream.addresses(name)
        except (NoSuchName, Unanswered):
            return False
        self._machine.names.learn(name, answer.addresses, answer.ttl_s)
        return self.address in answer.addresses

    def _allowed_names(self) -> list[str]:
        return [name for name in self._machine.names.fresh(self.address) if self.verdict(name, self.address).allowed]

    def _told_name(self) -> str:
        """For the log."""
        fresh = self._machine.names.fresh(self.address)
        return fresh[0] if fresh else ""

    def _kind(self) -> str:
        return "tls" if self._guest.held[:1] == b"\x16" else "http" if self.port == HTTP_PORT else ""

    @staticmethod
    def _one(claim: Claim) -> str:
        return next(iter(claim.names)) if len(claim.names) == 1 else ""
