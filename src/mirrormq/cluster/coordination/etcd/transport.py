"""Questions to whichever member answers: failover, logins, and the decision whether a write may be asked again.

A write is sent to a member only after that member has answered a read of the majority, so it is of the right cluster and not
cut off from it. It is sent again only if it certainly did nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mirrormq.cluster.coordination import deadlines
from mirrormq.cluster.coordination.errors import Closed, CoordinationError, OutcomeUnknown, Refused, StoreDamaged, Unreachable
from mirrormq.cluster.coordination.reachability import Reachability

from .codec import Json
from .endpoints import Endpoints, Guard, StaleMember
from .faults import EtcdFault, Meaning
from .http import Http, Lost, NotSent, NotTrusted

READ = "kv/range"
TRANSACT = "kv/txn"
MAJORITY = (READ, TRANSACT)
"""Questions that only a majority can answer."""


class Transport:
    def __init__(self, http: Http, endpoints: Endpoints, probe: Json, user: str, password: str) -> None:
        self.reachability = Reachability()
        self.heard = time.monotonic()
        """When the majority last answered."""
        self.guard = Guard()
        self._http = http
        self._endpoints = endpoints
        self._probe = probe
        self._user = user
        self._password = password
        self._token = ""
        self._login = asyncio.Lock()
        self._damage: StoreDamaged | None = None
        self._is_closed = False

    async def ask(self, path: str, body: Json, *, repeatable: bool) -> Json:
        """An answer, or one of the port's errors; EtcdFault for those that the caller knows."""
        until = time.monotonic() + deadlines.CALL
        problems: dict[str, Exception] = {}
        while time.monotonic() < until:
            self._check_open()
            address = self._endpoints.current
            try:
                return await self._attempt(address, path, body, until, repeatable=repeatable)
            except (NotSent, Lost, StaleMember, EtcdFault) as problem:
                await self._judge(address, problem, repeatable=repeatable)
                is_first = address not in problems
                if is_first or _says_more(problem, problems[address], until):
                    problems[address] = problem
                if self._is_nobody_trusted(problems):
                    break
                if not is_first:
                    await asyncio.sleep(min(deadlines.AGAIN, max(0.0, until - time.monotonic())))
        raise self._unreachable(problems)

    async def _attempt(self, address: str, path: str, body: Json, until: float, *, repeatable: bool) -> Json:
        await self._prepare(address, until, repeatable=repeatable)
        remaining = until - time.monotonic()
        if remaining <= 0:
            raise NotSent("it was too slow")
        return await self._ask(address, path, body, min(remaining, deadlines.ATTEMPT) if repeatable else remaining)

    async def _prepare(self, address: str, until: float, *, repeatable: bool) -> None:
        """Whatever goes wrong here, the question itself has not been sent."""
        limit = min(until - time.monotonic(), deadlines.ATTEMPT)
        try:
            await self._log_in(address, limit)
            if not repeatable and not self._endpoints.is_verified(address):
                await self._ask(address, READ, self._probe, limit)
        except Lost as fault:
            raise NotSent(str(fault)) from fault
        except EtcdFault as fault:
            if fault.meaning is Meaning.UNKNOWN:
                raise NotSent(str(fault)) from fault
            raise

    async def _ask(self, address: str, path: str, body: Json, limit: float) -> Json:
        before = self.guard.revision
        answer = await self._http.ask(address, path, body, self._token, limit)
        if path != TRANSACT:  # a majority has done what a transaction answers, whatever this member thinks of its term
            self.guard.check(answer)
        if path in MAJORITY:
            self._check_revision(answer, before)
            self._endpoints.verify(address)
            self.heard = time.monotonic()
            self.reachability.found()
        return answer

    def _check_revision(self, answer: Json, before: int) -> None:
        try:
            self.guard.check_revision(answer, before)
        except StoreDamaged as fault:
            self._damage = fault
            self.reachability.lost(str(fault))
            self._http.cut_all()  # watches wait for revisions that may never come: when they ask again, they are told
            raise

    async def _judge(self, address: str, problem: Exception, *, repeatable: bool) -> None:
        """Raise what ends the call; return where it may go on, at the next member or with a new login."""
        meaning = problem.meaning if isinstance(problem, EtcdFault) else Meaning.AGAIN
        if isinstance(problem, EtcdFault) and meaning is Meaning.FINAL:
            raise problem
        if isinstance(problem, EtcdFault) and meaning is Meaning.LOGIN:
            if not self._user:
                raise problem.translate() from problem
            self._token = ""
            return
        self._fail(address)
        if not repeatable and (isinstance(problem, Lost) or meaning is Meaning.UNKNOWN):
            raise OutcomeUnknown(f"{address} gave no answer ({problem}); whether this change happened is not known") from problem

    def _fail(self, address: str) -> None:
        self._endpoints.fail(address)
        self._http.cut(address)

    def _unreachable(self, problems: dict[str, Exception]) -> CoordinationError:
        words = "; ".join(f"{address}: {problem}" for address, problem in sorted(problems.items()))
        self.reachability.lost(words)
        if self._is_nobody_trusted(problems):
            return Refused(f"no member of etcd is trusted ({words}): name the authority that signed their certificates")
        return Unreachable(f"no member of etcd answers for a majority ({words}): start it, or look at the network")

    def _is_nobody_trusted(self, problems: dict[str, Exception]) -> bool:
        return len(problems) == len(self._endpoints) and all(isinstance(problem, NotTrusted) for problem in problems.values())

    async def _log_in(self, address: str, limit: float) -> None:
        """One at a time: whoever waited finds the token of the first."""
        async with self._login:
            if not self._user or self._token:
                return
            body = {"name": self._user, "password": self._password}
            try:
                answer = await self._http.ask(address, "auth/authenticate", body, "", limit)
            except EtcdFault as fault:
                if not fault.is_without_logins:
                    raise
                self._user = ""  # an etcd without logins lets everyone in
            else:
                self._token = str(answer.get("token", ""))

    def forget_login(self) -> None:
        self._token = ""

    def member(self, other_than: str) -> str:
        """The current one, or the next if that is one which is not wanted."""
        return self._endpoints.other_than(other_than)

    @asynccontextmanager
    async def stream(self, address: str, path: str, body: Json) -> AsyncIterator[AsyncIterator[Json]]:
        """Answers of a member as long as it is good; raises Lost, NotSent, StaleMember, EtcdFault when it is not."""
        self._check_open()
        try:
            await self._log_in(address, deadlines.ATTEMPT)
            async with self._http.stream(address, path, body, self._token) as answers:
                yield self._guarded(answers)
        except (NotSent, Lost, StaleMember):
            self._fail(address)
            raise

    async def _guarded(self, answers: AsyncIterator[Json]) -> AsyncIterator[Json]:
        async for answer in answers:
            self.guard.check(answer)
            yield answer

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("etcd was closed by this node")
        if self._damage is not None:
            raise self._damage

    async def close(self) -> None:
        self._is_closed = True
        await self._http.close()


def _says_more(problem: Exception, known: Exception, until: float) -> bool:
    """Whether it replaces what is known of the same member: a certificate stays bad, and what the call's own end cut short
    says nothing about anybody."""
    return isinstance(problem, NotTrusted) or (not isinstance(known, NotTrusted) and time.monotonic() < until)
