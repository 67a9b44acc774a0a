"""The names of nodes: whoever is proven one way cannot take a name that another proof gives."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.node_names import MAX_NODE_BYTES, is_name, node_of_alternative_name
from gateway.edge.carriers.tls import node_of

NODE = "0b5c1a2e-8a54-4d7a-9f6e-7a1d2c3b4e5f"


@pytest.mark.parametrize("kind", ["anon", "cluster", "cn", "link", "san", "token", "user", "xmpp", "USER"])
def test_a_certificate_cannot_take_the_name_of_another_kind_of_node(kind: str) -> None:
    assert node_of_alternative_name(f"{kind}:alice") == f"san:{kind}:alice"


@pytest.mark.parametrize("written", [NODE, NODE.upper(), NODE.replace("-", ""), f"{{{NODE}}}"])
def test_a_certificate_cannot_take_the_name_of_a_device(written: str) -> None:
    assert node_of_alternative_name(written) == f"san:{written}"


@pytest.mark.parametrize("name", ["urn:plant:7", f"urn:uuid:{NODE}", "spiffe://plant/7", "plant-7.example", "username"])
def test_usual_names_of_certificates_stand_as_they_are(name: str) -> None:
    assert node_of_alternative_name(name) == name


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "a\x1b[31mb", "a\x9bb", "a" * (MAX_NODE_BYTES + 1)])
def test_a_certificate_whose_name_steers_a_terminal_or_is_too_long_names_nobody(name: str) -> None:
    assert not is_name(name)
    assert node_of({"subjectAltName": (("URI", name),)}, "san") == ""
    assert node_of({"subject": ((("commonName", name),),)}, "cn") == ""


def test_a_certificate_may_have_a_name_as_long_as_the_limit_says() -> None:
    name = "a" * MAX_NODE_BYTES
    assert node_of({"subjectAltName": (("URI", name),)}, "san") == name
    assert node_of({"subject": ((("commonName", name),),)}, "cn") == f"cn:{name}"


@given(one=st.text(), other=st.text())
def test_two_certificates_of_different_names_are_two_nodes(one: str, other: str) -> None:
    assert (node_of_alternative_name(one) == node_of_alternative_name(other)) == (one == other)


@given(st.uuids())
def test_no_certificate_is_the_node_of_a_packet_key(node: UUID) -> None:
    assert node_of_alternative_name(str(node)) != str(node)
