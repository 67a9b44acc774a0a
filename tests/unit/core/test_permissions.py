"""Tests who may publish, subscribe and serve what."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.permissions import CACHED_RULES, Grant, Permissions, Rule, contains, overlaps
from gateway.core.subjects import matches

NODE, OTHER = "9a1f4c3e-1111-4222-8333-000000000001", "cn:plant-7"
NOTHING = Grant(allow=())

words = st.sampled_from(["a", "b", "mesh"])
subjects = st.lists(words, min_size=1, max_size=4).map(".".join)
patterns = st.builds(
    lambda parts, tail: ".".join([*parts, *tail]),
    st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
) | st.just(">")
grants = st.builds(Grant, st.lists(patterns, max_size=3).map(tuple), st.lists(patterns, max_size=2).map(tuple))


def everything(grant: Grant) -> Rule:
    return Rule(publish=grant, subscribe=grant, serve=grant)


class TestWithoutRules:
    @pytest.mark.parametrize("node", [NODE, "anon:edge-0:7", ""])
    def test_everything_is_allowed_also_to_those_who_are_not_proven(self, node: str) -> None:
        judge = Permissions()
        assert judge.may_publish(node, "web", "order.new")
        assert judge.may_subscribe(node, "web", ">")
        assert judge.may_receive(node, "web", "order.new")
        assert judge.may_serve(node, "web", "order.>")


def test_what_may_be_asked_of_a_server_is_judged_by_the_subject_and_not_by_all_it_serves() -> None:
    judge = Permissions((Rule(serve=Grant(("a.>",), ("a.b",))),))
    assert [judge.may_be_asked(NODE, "web", subject) for subject in ("a.c", "a.b", "c")] == [True, False, False]


class TestTheMeshsOwnSubjects:
    @pytest.mark.parametrize("subject", ["mesh.subscribe", "MESH.x", "mesh.", "mesh/ping", "Mesh.session.opened"])
    def test_nobody_publishes_or_serves_there_whatever_the_rules_say(self, subject: str) -> None:
        judge = Permissions((Rule(),))
        assert not judge.may_publish(NODE, "web", subject)
        assert not judge.may_serve(NODE, "web", subject)

    @pytest.mark.parametrize("subject", ["meshes.new", "mesh"])
    def test_a_name_that_only_begins_like_it_is_free(self, subject: str) -> None:
        assert Permissions().may_publish(NODE, "web", subject)

    def test_anyone_may_subscribe_there(self) -> None:
        assert Permissions().may_subscribe(NODE, "web", "mesh.session.>")
        assert Permissions().may_receive(NODE, "web", "mesh.session.opened")


class TestWhichRule:
    def test_the_first_that_matches_decides(self) -> None:
        judge = Permissions((Rule(nodes=(NODE,), publish=Grant(("a",))), Rule(publish=Grant(("b",)))))
        assert [judge.may_publish(NODE, "web", subject) for subject in "ab"] == [True, False]
        assert [judge.may_publish(OTHER, "web", subject) for subject in "ab"] == [False, True]

    def test_whom_none_matches_may_do_everything(self) -> None:
        judge = Permissions((Rule(nodes=(NODE,), publish=NOTHING),))
        assert not judge.may_publish(NODE, "web", "a")
        assert judge.may_publish(OTHER, "web", "a")
        assert judge.may_publish("anon:edge-0:7", "web", "a")

    def test_a_last_rule_for_all_closes_a_mesh(self) -> None:
        judge = Permissions((Rule(nodes=(NODE,)), everything(NOTHING)))
        assert judge.may_publish(NODE, "web", "a")
        assert not judge.may_publish("anon:edge-0:7", "web", "a")
        assert not judge.may_subscribe("anon:edge-0:7", "web", "a")
        assert not judge.may_serve("anon:edge-0:7", "web", "a")

    @pytest.mark.parametrize(
        ("glob", "node", "applies"),
        [
            ("cn:plant-*", "cn:plant-7", True),
            ("cn:plant-*", "cn:plants", False),
            ("cn:plant-?", "cn:plant-77", False),
            ("anon:*", "anon:edge-0:7", True),
            (NODE, NODE, True),
            (NODE, NODE[:-1], False),
            ("CN:plant-7", "cn:plant-7", False),
            ("cn:[ab]", "cn:[ab]", True),
            ("cn:[ab]", "cn:a", False),
        ],
    )
    def test_nodes_are_ids_or_globs(self, glob: str, node: str, applies: bool) -> None:
        judge = Permissions((Rule(nodes=("nobody", glob), publish=NOTHING),))
        assert judge.may_publish(node, "web", "a") is not applies

    def test_a_rule_may_be_for_some_listeners_alone(self) -> None:
        judge = Permissions((Rule(listeners=("web*",), publish=NOTHING),))
        assert not judge.may_publish(NODE, "web-2", "a")
        assert judge.may_publish(NODE, "plc", "a")

    def test_more_pairs_than_are_remembered_are_judged_the_same(self) -> None:
        judge = Permissions((Rule(nodes=("n0",), publish=NOTHING),))
        for number in range(CACHED_RULES + 1):
            judge.may_publish(f"n{number}", "web", "a")
        assert not judge.may_publish("n0", "web", "a")
        assert judge.may_publish("n1", "web", "a")


class TestSubjects:
    JUDGE = Permissions((everything(Grant(allow=("order.>", "admin.*"), deny=("admin.off", "order.*.secret"))),))

    @pytest.mark.parametrize(
        ("subject", "allowed"),
        [
            ("order.new", True),
            ("order/new", True),
            ("order", False),
            ("order.7.secret", False),
            ("order.7.secret.more", True),
            ("admin.on", True),
            ("admin.off", False),
            ("admin/off", False),
            ("other", False),
        ],
    )
    def test_denied_is_denied_even_if_allowed(self, subject: str, allowed: bool) -> None:
        assert self.JUDGE.may_publish(NODE, "web", subject) is allowed
        assert self.JUDGE.may_receive(NODE, "web", subject) is allowed

    @pytest.mark.parametrize(
        ("pattern", "subscribe", "serve"),
        [
            ("order.>", True, False),
            ("order.new", True, True),
            ("order.*", True, True),
            ("order.*.*", True, False),
            ("order.7.secret", False, False),
            ("admin.*", True, False),
            ("admin.off", False, False),
            (">", False, False),
            ("*.new", False, False),
            ("*.>", False, False),
        ],
    )
    def test_a_subscription_may_touch_what_is_denied_and_a_server_may_not(
        self, pattern: str, subscribe: bool, serve: bool
    ) -> None:
        assert self.JUDGE.may_subscribe(NODE, "web", pattern) is subscribe
        assert self.JUDGE.may_serve(NODE, "web", pattern) is serve

    def test_what_a_wide_subscription_must_not_see_is_withheld(self) -> None:
        judge = Permissions((Rule(subscribe=Grant(deny=("admin.>",))),))
        assert judge.may_subscribe(NODE, "web", ">")
        assert judge.may_receive(NODE, "web", "order.new")
        assert not judge.may_receive(NODE, "web", "admin.off")


class TestPatterns:
    @pytest.mark.parametrize(
        ("outer", "inner", "holds"),
        [
            (">", ">", True),
            (">", "a.*.>", True),
            ("a.>", "a.>", True),
            ("a.>", "a.*", True),
            ("a.>", "a", False),
            ("a.>", ">", False),
            ("a.*", "a.>", False),
            ("*", ">", False),
            ("*.>", "a.>", True),
            ("a", "a", True),
            ("a/b", "a.b", True),
            ("a.b", "a.*", False),
            ("*.b", "a.b", True),
        ],
    )
    def test_one_contains_another(self, outer: str, inner: str, holds: bool) -> None:
        assert contains(outer, inner) is holds

    @given(outer=patterns, inner=patterns, subject=subjects)
    @settings(max_examples=200, deadline=None)
    def test_what_the_inner_matches_the_outer_does(self, outer: str, inner: str, subject: str) -> None:
        assert not (contains(outer, inner) and matches(inner, subject)) or matches(outer, subject)

    @given(one=patterns, other=patterns, subject=subjects)
    @settings(max_examples=200, deadline=None)
    def test_those_that_match_one_subject_overlap(self, one: str, other: str, subject: str) -> None:
        assert overlaps(one, other) == overlaps(other, one)
        assert overlaps(one, other) or not (matches(one, subject) and matches(other, subject))

    @given(one=patterns, other=patterns)
    @settings(max_examples=200, deadline=None)
    def test_those_that_overlap_match_some_subject(self, one: str, other: str) -> None:
        length = max(one.count("."), other.count(".")) + 1
        spread = [_spread(pattern, length) for pattern in (one, other)]
        both = [b if a == "*" else a for a, b in zip(*spread, strict=False)]
        shared = ".".join("a" if token == "*" else token for token in both)
        assert overlaps(one, other) == (matches(one, shared) and matches(other, shared))

    @given(grant=grants, pattern=patterns, subject=subjects)
    @settings(max_examples=200, deadline=None)
    def test_nobody_receives_or_serves_what_is_denied(self, grant: Grant, pattern: str, subject: str) -> None:
        judge = Permissions((everything(grant),))
        denied = any(matches(deny, subject) for deny in grant.deny)
        assert not (denied and judge.may_receive(NODE, "web", subject))
        assert not (denied and judge.may_serve(NODE, "web", pattern) and matches(pattern, subject))


def _spread(pattern: str, length: int) -> list[str]:
    """`a.>` as `a.*.*`: so many tokens, each a name or `*`."""
    parts = pattern.split(".")
    return parts if parts[-1] != ">" else parts[:-1] + ["*"] * (length - len(parts) + 1)
