"""Tests who gets an event: once each, one of a group, one server, the same for a retry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.interests import Interest, InterestTable, Put, Remove, Verb, index
from gateway.interests.table import PermissionCheck

from .examples import NOW, at, interest, key


def filled(interests: Iterable[Interest]) -> InterestTable:
    mesh = InterestTable()
    for one in interests:
        mesh.apply(Put(one))
    return mesh


def everyone(*_: object) -> bool:
    return True


def who(
    mesh: InterestTable, subject: str, event_id: str = "0-1-0", at_us: int = NOW, may: PermissionCheck = everyone
) -> list[str]:
    return [one.subscriber for one in mesh.match(subject, Verb.SUBSCRIBE, at_us, event_id, may)]


def serving(name: str, pattern: str, **fields: Any) -> Interest:
    return interest(name, pattern, verb=Verb.SERVE, **fields)


class TestPlain:
    def test_overlapping_patterns_of_one_subscriber_deliver_once(self) -> None:
        mesh = filled(interest("a", pattern) for pattern in ("temp.high", "temp.*", "temp.>", "*.high", ">"))
        assert who(mesh, "temp.high") == ["a"]

    def test_an_event_reaches_everyone_who_wants_it(self) -> None:
        mesh = filled([interest("a", "temp.*"), interest("b", "*.high"), interest("c", "temp.low")])
        assert sorted(who(mesh, "temp/high")) == ["a", "b"]

    def test_serving_a_subject_is_not_subscribing_to_it(self) -> None:
        mesh = filled([serving("a", "sum"), interest("b", "sum")])
        assert who(mesh, "sum") == ["b"]
        assert [one.subscriber for one in mesh.servers("sum", NOW)] == ["a"]

    def test_two_tables_with_one_content_give_one_order(self) -> None:
        wanted = [interest(name, "x") for name in "dabc"]
        assert who(filled(wanted), "x") == who(filled(reversed(wanted)), "x")

    def test_the_plain_subscribers_are_the_same_tuple_until_something_changes(self) -> None:
        mesh = filled([interest("a", "x")])
        first = mesh.match("x", Verb.SUBSCRIBE, NOW, "0-1-0")
        assert mesh.match("x", Verb.SUBSCRIBE, NOW, "0-2-0").plain is first.plain
        mesh.apply(Put(interest("b", "x")))
        assert len(mesh.match("x", Verb.SUBSCRIBE, NOW, "0-3-0")) == 2


class TestGroups:
    EVENTS = tuple(f"0-{offset}-0" for offset in range(900))

    def test_one_member_of_each_group_gets_an_event(self) -> None:
        members = [interest(f"{group}{n}", "x", group=group) for group in "gh" for n in range(3)]
        got = who(filled([*members, interest("plain", "x")]), "x")
        assert sorted(name[0] for name in got) == ["g", "h", "p"]

    def test_a_group_spans_the_patterns_of_its_members(self) -> None:
        mesh = filled([interest("a", "x", group="g"), interest("b", "*", group="g")])
        assert all(len(who(mesh, "x", event)) == 1 for event in self.EVENTS[:20])

    def test_the_members_of_a_group_get_equal_shares(self) -> None:
        mesh = filled(interest(name, "x", group="g") for name in "abc")
        shares = Counter(who(mesh, "x", event)[0] for event in self.EVENTS)
        assert all(abs(share - 300) < 80 for share in shares.values()), shares

    def test_the_same_event_goes_to_the_same_member(self) -> None:
        mesh = filled(interest(name, "x", group="g") for name in "abc")
        same = filled(interest(name, "x", group="g") for name in "cba")
        assert [who(mesh, "x", event) for event in self.EVENTS] == [who(same, "x", event) for event in self.EVENTS]

    def test_when_a_member_goes_only_its_own_share_moves(self) -> None:
        mesh = filled(interest(name, "x", group="g") for name in "abc")
        before = {event: who(mesh, "x", event)[0] for event in self.EVENTS}
        mesh.apply(Remove(key("b", "x", group="g"), at(9)))
        after = {event: who(mesh, "x", event)[0] for event in self.EVENTS}
        assert all(after[event] == name for event, name in before.items() if name != "b")

    def test_a_member_that_gets_the_event_anyway_gets_it_once(self) -> None:
        mesh = filled([interest("a", "x"), interest("a", "*", group="g"), interest("a", ">", group="h")])
        assert who(mesh, "x") == ["a"]

    def test_a_member_whose_lease_is_over_is_not_chosen(self) -> None:
        mesh = filled([interest("a", "x", group="g", expires_at=NOW), interest("b", "x", group="g")])
        assert {who(mesh, "x", event)[0] for event in self.EVENTS[:50]} == {"b"}

    def test_a_group_without_living_members_gets_nothing(self) -> None:
        assert who(filled([interest("a", "x", group="g", expires_at=NOW)]), "x") == []

    def test_a_member_that_may_not_get_an_event_leaves_it_to_one_that_may(self) -> None:
        mesh = filled(interest(name, "x", group="g") for name in "abc")
        all_may = {event: who(mesh, "x", event) for event in self.EVENTS}
        not_b = {event: who(mesh, "x", event, may=lambda one, _: one.subscriber != "b") for event in self.EVENTS}
        assert {name for (name,) in not_b.values()} == {"a", "c"}
        assert all(not_b[event] == chosen for event, chosen in all_may.items() if chosen != ["b"])

    def test_a_group_none_of_whose_members_may_get_an_event_gets_nothing(self) -> None:
        mesh = filled([interest("a", "x", group="g"), interest("b", "x", group="h")])
        assert who(mesh, "x", may=lambda one, _: one.group == "h") == ["b"]

    def test_a_member_whose_plain_interest_does_not_get_the_event_gets_it_for_the_group(self) -> None:
        mesh = filled([interest("a", ">"), interest("a", "x", group="g")])
        assert len(mesh.match("x", Verb.SUBSCRIBE, NOW, "0-1-0", lambda one, _: bool(one.group)).chosen) == 1


class TestServers:
    def test_a_request_goes_to_one_server_and_its_retry_to_the_same(self) -> None:
        mesh = filled(serving(f"s{n}", pattern) for n, pattern in enumerate(("sum", "*", ">")))
        chosen = [mesh.server("sum", f"request-{n}", NOW) for n in range(60)]
        assert chosen == [mesh.server("sum", f"request-{n}", NOW) for n in range(60)]
        assert {one.subscriber for one in chosen if one} == {"s0", "s1", "s2"}

    def test_a_server_that_may_not_be_asked_leaves_the_request_to_one_that_may(self) -> None:
        mesh = filled([serving("a", "sum"), serving("b", "sum")])
        asked = {mesh.server("sum", f"r{n}", NOW, lambda one, _: one.subscriber == "b") for n in range(60)}
        assert asked == {mesh.of("b")[0]}
        assert mesh.server("sum", "r", NOW, lambda *_: False) is None

    def test_nobody_serves_a_subject_that_no_pattern_fits(self) -> None:
        assert filled([serving("a", "sum"), interest("b", "product")]).server("product", "r", NOW) is None

    def test_who_has_no_session_could_not_answer_and_takes_no_request_from_those_who_can(self) -> None:
        device = serving("device", "sum", session=0, address="192.0.2.7:1")
        mesh = filled([device, serving("a", "sum")])
        assert {one.subscriber for n in range(60) if (one := mesh.server("sum", f"r{n}", NOW))} == {"a"}
        assert filled([device]).server("sum", "r", NOW) is None

    def test_a_server_whose_lease_is_over_is_no_server(self) -> None:
        mesh = filled([serving("a", "sum", expires_at=NOW)])
        assert mesh.server("sum", "r", NOW) is None
        assert mesh.server("sum", "r", NOW - 1) is not None

    def test_a_cancel_goes_to_each_server_once(self) -> None:
        mesh = filled([serving("a", "sum"), serving("a", "*", group="g"), serving("b", ">")])
        assert sorted(one.subscriber for one in mesh.servers("sum", NOW)) == ["a", "b"]

    @pytest.mark.parametrize("pattern", ["Calc.Sum", "Calc.*", "*.Sum", "Calc.>", ">", "*.*.Deep", "Calc.Sum.Deep"])
    def test_a_component_has_servers_when_something_below_it_is_served(self, pattern: str) -> None:
        assert filled([serving("a", pattern)]).component_has_servers("Calc", NOW)

    @pytest.mark.parametrize("pattern", ["Calc", "*", "Calculator.Sum", "Other.>"])
    def test_a_component_has_no_servers_when_nothing_below_it_is_served(self, pattern: str) -> None:
        assert not filled([serving("a", pattern)]).component_has_servers("Calc", NOW)

    def test_a_component_has_no_servers_whose_leases_are_over(self) -> None:
        assert not filled([serving("a", "Calc.Sum", expires_at=NOW)]).component_has_servers("Calc", NOW)

    def test_subscribers_below_a_component_are_no_servers(self) -> None:
        assert not filled([interest("a", "Calc.Sum")]).component_has_servers("Calc", NOW)


class TestCache:
    """An answer is kept until a change could alter it."""

    SUBJECTS = ("temp.high", "temp/high", "temp.low", "temp", "other.high", "temp.high.roof")

    @pytest.mark.parametrize("pattern", ["temp.high", "temp/high", "temp.*", "temp.>", "*.high", ">", "*", "temp"])
    def test_what_is_put_and_removed_after_a_match_counts_in_the_next(self, pattern: str) -> None:
        mesh = InterestTable()
        without = {subject: who(mesh, subject) for subject in self.SUBJECTS}
        mesh.apply(Put(interest("a", pattern)))
        expected = {subject: who(filled([interest("a", pattern)]), subject) for subject in self.SUBJECTS}
        assert {subject: who(mesh, subject) for subject in self.SUBJECTS} == expected != without
        mesh.apply(Remove(key("a", pattern), at(9)))
        assert {subject: who(mesh, subject) for subject in self.SUBJECTS} == without

    def test_the_cache_is_bounded_in_references(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index, "MAX_CACHED_REFERENCES", 10 * index.SUBJECT_REFERENCES)
        kept = index.Index()
        kept.put(interest("a", "x.>"))
        for n in range(100):
            assert len(kept.find(f"x.{n}", NOW).plain) == 1
            assert sum(len(branch) for branch in kept._cache.values()) <= 10

    @pytest.mark.parametrize("pattern", ["x.1", "x.*", "*.1"])
    def test_the_count_of_the_cache_returns_to_what_is_kept(self, pattern: str) -> None:
        kept = index.Index()
        kept.put(interest("a", "y.>"))
        for subject in ("x.1", "x.2", "y.1"):
            kept.find(subject, NOW)
        kept.put(interest("b", pattern))
        answers = [found for branch in kept._cache.values() for found in branch.values()]
        assert kept._cached_references == sum(index.SUBJECT_REFERENCES + len(found.plain) for found in answers)

    def test_the_cache_keeps_nothing_of_a_first_token_without_answers(self) -> None:
        kept = index.Index()
        kept.find("x.1", NOW)
        kept.put(interest("a", "x.1"))
        assert (kept._cache, kept._cached_references) == ({}, 0)


def test_the_trie_holds_no_branches_for_patterns_that_are_gone() -> None:
    kept, wanted = index.Index(), [interest("a", pattern) for pattern in ("x.y.z", "x.y", "x.*.z", "x.>")]
    for one in wanted:
        kept.put(one)
    for one in wanted:
        kept.remove(one)
    assert kept._root.children == {}
