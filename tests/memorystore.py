"""A coordination store in memory for brokers without a node: it decides on proposals and tells every broker what it accepted."""

from __future__ import annotations

from mirrormq.broker import agreement
from mirrormq.broker.broker import Broker
from mirrormq.broker.journal import HELD, LOST, Proposal


class MemoryStore:
    def __init__(self, *brokers: Broker) -> None:
        self.brokers = list(brokers)
        self.revision = 0
        self.items: dict[str, tuple[str, int]] = {}
        self.unsettled: list[tuple[Broker, list[Proposal]]] = []
        self.blind: dict[Broker, dict[str, int]] = {}  # who hears of no change, and the revisions that it knows

    def put(self, name: str, text: str | None) -> None:
        """What nobody here proposed."""
        self.revision += 1
        self._write(name, text)
        self._finish()

    def blindfold(self, broker: Broker) -> None:
        """Its watch is broken, or late. Nobody is told that a proposal is settled before it sees again."""
        self.blind[broker] = {name: revision for name, (_, revision) in self.items.items()}

    def uncover(self, broker: Broker) -> None:
        """It sees what has become of everything, and not what was in between."""
        known = self.blind.pop(broker)
        for name in [name for name in known if name not in self.items]:
            broker.records.apply(name, None, self.revision)
        for name, (text, revision) in self.items.items():
            if known.get(name) != revision:
                broker.records.apply(name, text, revision)
        broker.records.finish()
        if not self.blind:
            unsettled, self.unsettled = self.unsettled, []
            for proposer, proposals in unsettled:
                agreement.settle(proposer, proposals)

    def _finish(self) -> None:
        for broker in self.brokers:
            if broker not in self.blind:
                broker.records.finish()

    def commit(self) -> None:
        """Decide on everything that was proposed, until nothing more is."""
        while any(broker.journal.proposals for broker in self.brokers):
            for broker in self.brokers:
                proposals = broker.journal.take()
                for proposal in proposals:
                    self._decide(proposal)
                if proposals and self.blind:
                    self.unsettled.append((broker, proposals))
                elif proposals:
                    agreement.settle(broker, proposals)

    def _decide(self, proposal: Proposal) -> None:
        holds = not any(name in self.items for name in proposal.absent)
        holds = holds and all(name in self.items for name in proposal.present)
        holds = holds and all(self.items.get(name, ("", 0))[1] == revision for name, revision in proposal.unchanged)
        holds = holds and all(self.items.get(name, ("", 0))[0] == text for name, text in proposal.same)
        proposal.state = HELD if holds else LOST
        if holds:
            self.revision += 1
            for name in [name for name in self.items if name.startswith(tuple(proposal.prefixes))]:
                self._write(name, None)
            for write in proposal.writes:
                self._write(write.name, write.text)
            self._finish()

    def _write(self, name: str, text: str | None) -> None:
        if text is not None:
            self.items[name] = (text, self.revision)
        elif self.items.pop(name, None) is None:
            return
        for broker in self.brokers:
            if broker not in self.blind:
                broker.records.apply(name, text, self.revision)
