"""Joining a cluster, leaving it, and forgetting a node that will not return.

Rules
 1. Who joins or leaves comes with nothing: its messages, users and queues are gone, and it gets a new id.
 2. A store in a node's own directory may be that of a whole cluster by now. It is removed only with its last member.
 3. A node that belongs to a cluster with others does not join another one by mistake: it must be reset first.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mirrormq.admin import rendezvous
from mirrormq.admin.app import App
from mirrormq.admin.errors import ApiError
from mirrormq.cluster import departure
from mirrormq.cluster.coordination import Coordination, CoordinationError
from mirrormq.cluster.departure import Lost
from mirrormq.cluster.keepsake import Keepsake
from mirrormq.node import directory
from mirrormq.node.cluster_store import open_store, own_file
from mirrormq.node.config import NodeConfig
from mirrormq.node.visiting import CookieDiffers, NotThere, ask_which_cluster

LINK_PORT = 25_672      # where other machines' nodes listen for nodes, unless they say otherwise


# --- leaving ------------------------------------------------------------------------------------------------------------


async def reset(app: App) -> Lost:
    """Leave the cluster and forget everything. Returns the queues that went with this node."""
    async with _stopped(app) as keepsake:
        lost, others = await _leave(app.config, keepsake) if keepsake.cluster else ([], [])
        _begin_anew(app.config, keepsake, is_shared=bool(others))
        return lost


async def force_reset(app: App) -> None:
    """Forget everything without asking the store. The other members must be told with `forget_cluster_node`."""
    async with _stopped(app) as keepsake:
        _begin_anew(app.config, keepsake, is_shared=await _may_be_shared(app.config, keepsake))


async def _leave(config: NodeConfig, keepsake: Keepsake) -> tuple[Lost, list[str]]:
    async with _store(config, keepsake) as store:
        try:
            lost = await departure.remove(store, keepsake.node, keepsake.id)
        except departure.NoMember:
            lost = []                   # it has been forgotten already
        except departure.StillUp:
            raise ApiError(400, "still_running", f"node {keepsake.node} is up in the eyes of the store: try again in a "
                           "few seconds") from None
        others = await departure.others(store, keepsake.node)
        if not others:
            await departure.end_cluster(store)
        return lost, others


async def _may_be_shared(config: NodeConfig, keepsake: Keepsake) -> bool:
    """Whether others live from the store in our directory. One that cannot be read is better kept."""
    path = own_file(config, keepsake)
    if path is None or not path.exists():
        return False
    try:
        async with _store(config, keepsake) as store:
            return bool(await departure.others(store, keepsake.node))
    except CoordinationError:
        return True


def _begin_anew(config: NodeConfig, keepsake: Keepsake, *, is_shared: bool, coordination: str = "") -> None:
    path = own_file(config, keepsake)
    if path is not None and not is_shared:
        directory.remove_store(path)
    directory.empty(config.data_dir)
    fresh = Keepsake(keepsake.node, uuid.uuid4().hex)
    if not coordination and not config.coordination and (config.data_dir / directory.STORE).exists():
        coordination = f"sqlite:{config.data_dir.resolve() / f'cluster-{fresh.id[:8]}.sqlite'}"
    fresh.joined(coordination).save(config.data_dir)


# --- joining --------------------------------------------------------------------------------------------------------------


async def join(app: App, target: str) -> str:
    """Become a member of the cluster that the other node is in, from the next start on. Returns a sentence, or nothing."""
    name = rendezvous.full_name(target)
    async with _stopped(app) as keepsake:
        if name == keepsake.node:
            raise ApiError(400, "itself", f"Error: cannot cluster node with itself: {name}")
        told, is_here = await _visit(app.config, keepsake, name)
        if keepsake.node in told["members"]:
            if told["cluster"] == keepsake.cluster:
                return "The node is already a member of this cluster"
            raise ApiError(400, "name_taken", f"the cluster of {name} has another node of the name {keepsake.node}: forget it "
                           f"there with 'mirrormqctl -n {name} forget_cluster_node {keepsake.node}'")
        if told["coordination"].startswith("sqlite:") and not is_here:
            raise ApiError(400, "another_machine", f"the cluster of {name} keeps what it agrees on in a file of its own "
                           "machine: nodes of several machines need etcd")
        is_shared = await _part(app.config, keepsake, told["cluster"])
        _begin_anew(app.config, keepsake, is_shared=is_shared, coordination=told["coordination"])
        return ""


async def _part(config: NodeConfig, keepsake: Keepsake, cluster: str) -> bool:
    """Leave the cluster that the node is alone in. Returns whether its store stays."""
    if not keepsake.cluster:
        return False
    if keepsake.cluster == cluster:
        return True                     # it has been forgotten there, and comes back with nothing
    async with _store(config, keepsake) as store:
        others = await departure.others(store, keepsake.node)
    if others:
        raise ApiError(400, "already_clustered", f"node {keepsake.node} is a member of another cluster, with "
                       f"{', '.join(others)}: reset it first with 'mirrormqctl -n {keepsake.node} reset'")
    await _leave(config, keepsake)
    return False


async def _visit(config: NodeConfig, keepsake: Keepsake, name: str) -> tuple[dict[str, Any], bool]:
    """What the other node tells of its cluster, and whether it is on this machine."""
    place = rendezvous.read(name, os.environ)
    is_here = place is not None and place.is_alive()
    if place is not None and is_here and not place.link:
        raise ApiError(400, "not_running", f"the application of node {name} is stopped: start it with 'mirrormqctl -n {name} "
                       "start_app'")
    host, _, port = place.link.rpartition(":") if place is not None and is_here else (name.partition("@")[2], "", str(LINK_PORT))
    try:
        return await ask_which_cluster(config, keepsake, name, (host, int(port))), is_here
    except CookieDiffers as fault:
        raise ApiError(400, "cookie", str(fault)) from None
    except NotThere as fault:
        raise ApiError(400, "unreachable_node", str(fault)) from None


# --- forgetting -----------------------------------------------------------------------------------------------------------


async def forget(app: App, target: str) -> Lost:
    """Take a node out that is down. Returns the queues whose only copy it had."""
    name = rendezvous.full_name(target)
    try:
        if app.runtime is not None:
            lost = await departure.remove(app.runtime.cluster.store, name)
            await app.runtime.cluster.membership.until_without(name)
            return lost
        async with _stopped(app) as keepsake, _store(app.config, keepsake) as store:
            return await departure.remove(store, name)
    except departure.StillUp:
        raise ApiError(400, "still_running", f"RabbitMQ on node {name} must be stopped with 'mirrormqctl -n {name} stop_app' "
                       "before it can be removed") from None
    except departure.NoMember:
        raise ApiError(400, "not_a_cluster_node", "The node selected is not in the cluster.") from None


# --- around all of it -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _stopped(app: App) -> AsyncIterator[Keepsake]:
    """The application is stopped and stays so meanwhile; what its directory tells."""
    async with app.changing():
        app.require_stopped()
        yield Keepsake.load(app.config.data_dir, app.config.node_name)


@asynccontextmanager
async def _store(config: NodeConfig, keepsake: Keepsake) -> AsyncIterator[Coordination]:
    store = await open_store(config, keepsake)
    try:
        yield store
    finally:
        await store.close()
