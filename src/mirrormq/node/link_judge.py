"""Whether a node that has proved to know the secret is let in, and if not, the sentence that both sides log."""

from __future__ import annotations

from mirrormq.cluster.link import VISITOR, Introduction
from mirrormq.cluster.link.identity import common_version


class Standing:
    """What is known here of a name: whether it is a member, with which id, and how it introduced itself if it is linked."""

    def __init__(self, *, is_member: bool, node_id: str, linked: Introduction | None) -> None:
        self.is_member = is_member
        self.node_id = node_id
        self.linked = linked


def refusal(me: Introduction, guest: Introduction, standing: Standing) -> str:
    """Why the guest is refused, or nothing."""
    name = guest.who.name
    if guest.to and guest.to != me.who.name:
        return f"this is {me.who.name}, not {guest.to}"
    if not common_version(me, guest):
        return (
            f"{name} speaks versions {guest.oldest} to {guest.newest} of the link and {me.who.name} speaks "
            f"{me.oldest} to {me.newest}; upgrade the older node"
        )
    if guest.role == VISITOR:
        return ""
    return _wrong_node(me, guest) or _no_member(me, guest, standing) or _older(guest, standing.linked)


def _wrong_node(me: Introduction, guest: Introduction) -> str:
    here, there = me.who, guest.who
    if me.cluster_id and guest.cluster_id and me.cluster_id != guest.cluster_id:
        return f"{there.name} belongs to the cluster {guest.cluster_id} and {here.name} to {me.cluster_id}"
    if there.name == here.name:
        return f"this node is called {here.name} too; two nodes of a cluster cannot have one name"
    if there.node_id == here.node_id:
        return f"{there.name} and {here.name} have the same node id; was a data directory copied?"
    if there.name > here.name:
        return f"{here.name} dials {there.name}, not the other way round"
    return ""


def _no_member(me: Introduction, guest: Introduction, standing: Standing) -> str:
    name = guest.who.name
    if not standing.is_member:
        return f"{name} is no member of the cluster as {me.who.name} knows it"
    if standing.node_id and standing.node_id != guest.who.node_id:
        return f"the member {name} has the id {standing.node_id}, not {guest.who.node_id}; forget the old node first"
    return ""


def _older(guest: Introduction, linked: Introduction | None) -> str:
    if linked is None:
        return ""
    if linked.who.node_id != guest.who.node_id:
        return f"another node called {guest.who.name}, with the id {linked.who.node_id}, is linked already"
    if (guest.who.incarnation, guest.attempt) < (linked.who.incarnation, linked.attempt):
        return f"a newer connection of {guest.who.name} is up already"
    return ""
