"""Tests how many interests a node and the mesh may have: at the limit, and one beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.protocols.yamp import frames as yamp
from gateway.records.raw_log.container import ContainerBuilder
from tests.unit.routing.asking import answers, client, request, subscribe
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog
from tests.unit.routing.test_nodes import BY_HMAC, KEYS, granted, hello, take

OVERLOAD = ("match", "overload")


def mesh_with(**limits: int) -> MeshInALog:
    return MeshInALog(keys=KEYS, settings={"limits": limits})


def errors(mesh: MeshInALog, *peers: Any) -> list[str]:
    return [value["code"] for peer in peers for kind, value in answers(mesh, peer) if kind == yamp.ResponseType.ERROR]


class TestOfANode:
    def test_its_sessions_together_have_as_many_as_the_limit(self) -> None:
        mesh = mesh_with(subscriptions_per_node=4)
        one, two = client(mesh, node="n"), client(mesh, node="n")
        for number in range(2):
            subscribe(mesh, one, f"a.{number}", 100 + number)
            subscribe(mesh, two, f"b.{number}", 200 + number)
        assert (errors(mesh, one, two), len(mesh.state.table)) == ([], 4)
        subscribe(mesh, two, "c", 300)
        assert errors(mesh, one, two) == ["forbidden"]
        assert mesh.rejections() == [OVERLOAD]
        assert len(mesh.state.table) == 4

    def test_what_it_has_already_may_be_asked_for_again(self) -> None:
        mesh = mesh_with(subscriptions_per_node=1)
        peer = client(mesh, node="n")
        subscribe(mesh, peer, "a", 100)
        subscribe(mesh, peer, "a", 101)
        assert errors(mesh, peer) == []

    def test_what_it_gives_back_makes_room(self) -> None:
        mesh = mesh_with(subscriptions_per_node=1)
        peer = client(mesh, node="n")
        subscribe(mesh, peer, "a", 100)
        mesh.log(peer.source, request("mesh.unsubscribe", {"subject": "a"}, 101))
        subscribe(mesh, peer, "b", 102)
        assert (errors(mesh, peer), [one.pattern for one in mesh.state.table]) == ([], ["b"])

    def test_another_node_has_a_limit_of_its_own(self) -> None:
        mesh = mesh_with(subscriptions_per_node=1)
        one, two = client(mesh, node="n"), client(mesh, node="m")
        subscribe(mesh, one, "a", 100)
        subscribe(mesh, two, "a", 101)
        assert errors(mesh, one, two) == []

    def test_what_is_still_under_way_counts(self) -> None:
        mesh = mesh_with(subscriptions_per_node=2)
        peer = client(mesh, node="n")
        builder = ContainerBuilder(EDGE, EPOCH)
        for number in range(4):
            builder.add(peer.source, NOW * 1_000_000, request("mesh.subscribe", {"subject": f"a.{number}"}, number))
        mesh.append(builder.build())
        assert errors(mesh, peer) == ["forbidden", "forbidden"]
        assert len(mesh.state.table) == 2

    def test_what_a_listener_subscribes_for_its_peers_counts(self) -> None:
        mesh = mesh_with(subscriptions_per_node=2)
        client(mesh, node="n", subscribe=("a", "b", "c"))
        assert (len(mesh.state.table), mesh.rejections()) == (2, [OVERLOAD])

    def test_a_listener_may_have_another_limit(self) -> None:
        listener = {"name": "yamp", "protocol": "yamp", "listen": "tcp://127.0.0.1:5042", "subscriptions_per_node": 1}
        mesh = MeshInALog(settings={"listeners": [listener]})
        peer = client(mesh, node="n")
        subscribe(mesh, peer, "a", 100)
        subscribe(mesh, peer, "b", 101)
        assert errors(mesh, peer) == ["forbidden"]

    def test_a_hello_gets_as_much_of_its_list_as_there_is_room_for(self) -> None:
        mesh = mesh_with(subscriptions_per_node=2)
        take(mesh, hello(BY_HMAC, "a", "b"))
        assert granted(mesh) == ["a", "b"]
        take(mesh, hello(BY_HMAC, "a", "b", "c"), after=1)
        assert granted(mesh) == ["a", "b"]
        assert mesh.rejections() == [OVERLOAD]

    def test_a_hello_that_wants_others_instead_gets_them(self) -> None:
        mesh = mesh_with(subscriptions_per_node=2)
        take(mesh, hello(BY_HMAC, "a", "b"))
        take(mesh, hello(BY_HMAC, "c", "d"), after=1)
        assert granted(mesh) == ["c", "d"]
        assert (len(mesh.state.table), mesh.rejections()) == (2, [])


class TestOfTheMesh:
    def test_all_nodes_together_have_as_many_as_the_limit(self) -> None:
        mesh = mesh_with(subscriptions_per_mesh=3)
        peers = [client(mesh) for _ in range(4)]
        for number, peer in enumerate(peers):
            subscribe(mesh, peer, "a", 100 + number)
        assert errors(mesh, *peers[:3]) == []
        assert errors(mesh, peers[3]) == ["forbidden"]
        assert (len(mesh.state.table), mesh.rejections()) == (3, [OVERLOAD])

    def test_who_hangs_up_makes_room(self) -> None:
        mesh = mesh_with(subscriptions_per_mesh=1)
        one, two = client(mesh), client(mesh)
        subscribe(mesh, one, "a", 100)
        mesh.close(one)
        subscribe(mesh, two, "a", 101)
        assert errors(mesh, two) == []

    def test_datagrams_count_too(self) -> None:
        mesh = mesh_with(subscriptions_per_mesh=1)
        subscribe(mesh, client(mesh), "a")
        take(mesh, hello(BY_HMAC, "a"))
        assert granted(mesh) == []

    @pytest.mark.parametrize("limit", ["subscriptions_per_node", "subscriptions_per_mesh"])
    def test_the_subscriber_is_told_which_limit_it_is(self, limit: str) -> None:
        mesh = mesh_with(**{limit: 1})
        peer = client(mesh, node="n")
        subscribe(mesh, peer, "a", 100)
        subscribe(mesh, peer, "b", 101)
        ((_, error),) = [one for one in answers(mesh, peer) if one[0] == yamp.ResponseType.ERROR]
        assert limit in error["message"]
