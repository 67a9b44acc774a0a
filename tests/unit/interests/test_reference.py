"""The table against the obvious way: a list of changes replayed, each pattern asked by `subjects.matches`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.subjects import matches
from gateway.interests import Change, EndSession, Interest, InterestTable, NewEpoch, Put, Remove, SetFacts, Verb

from .examples import EDGE, NOW, at, interest, key

WORD = st.sampled_from(["a", "b", "c"])
SEPARATOR = st.sampled_from([".", "/"])
NAMES = st.sampled_from(["s1", "s2", "n1", "n2"])
DURABLE = {"n1", "n2"}
"""Sessions and nodes have different names: no interest is now the one's and now the other's."""


@st.composite
def subjects(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORD | st.sampled_from(["*", ">", ""]), min_size=1, max_size=4))
    return draw(SEPARATOR).join(words)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORD | st.just("*"), max_size=4))
    last = draw(WORD | st.sampled_from(["*", ">"]))
    return draw(SEPARATOR).join([*words, last])


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """Changes at rising positions; now and then the last few are repeated, as a log does after a crash.

    An edge's epoch begins before anything of it is wanted; what its earlier epochs wanted may still come late.
    """
    changes: list[Change] = [NewEpoch(EDGE, 1)]
    epoch = 1
    for offset in range(draw(st.integers(0, 25))):
        name, pattern, group = draw(NAMES), draw(patterns()), draw(st.sampled_from(["", "", "g"]))
        lease = draw(st.sampled_from([None, NOW, NOW + 1]))
        fields = {"epoch": draw(st.integers(1, epoch)), "durable": name in DURABLE}
        put = Put(interest(name, pattern, offset, group=group, expires_at=lease, **fields))
        new: list[Change] = [
            put,
            put,
            Remove(key(name, pattern, group=group), at(offset)),
            EndSession(name, at(offset)),
            SetFacts(name, {"at": offset}, at(offset)),
            NewEpoch(EDGE, epoch + 1),
        ]
        changes.append(draw(st.sampled_from(new)))
        changes += changes[len(changes) - draw(st.sampled_from([0, 0, 0, 0, 1, 2, 4, 8])) :]
        epoch = max([one.epoch for one in changes if isinstance(one, NewEpoch)])
    return changes


class Reference:
    """Takes each change once, in the order of the log."""

    def __init__(self) -> None:
        self.interests: dict[object, Interest] = {}
        self.seen: list[Change] = []
        self.epoch = -1

    def apply(self, change: Change) -> None:
        if change not in self.seen:
            self.seen.append(change)
            self.apply_new(change)

    def apply_new(self, change: Change) -> None:
        match change:
            case Put(one) if self.is_current(one):
                self.interests[one.key] = one
            case Remove(gone):
                self.interests.pop(gone, None)
            case EndSession(name):
                self.keep(lambda one: one.subscriber != name)
            case SetFacts(name, facts, position):
                mine = [one for one in self.interests.values() if one.subscriber == name]
                self.interests |= {one.key: replace(one, facts=facts, position=position) for one in mine}
            case NewEpoch(_, epoch):
                self.epoch = max(self.epoch, epoch)
                self.keep(self.is_current)

    def keep(self, wanted: Callable[[Interest], bool]) -> None:
        self.interests = {name: one for name, one in self.interests.items() if wanted(one)}

    def is_current(self, one: Interest) -> bool:
        return one.durable or one.epoch >= self.epoch

    def fitting(self, subject: str, group: str) -> set[str]:
        return {
            one.subscriber
            for one in self.interests.values()
            if one.group == group and one.alive_at(NOW) and matches(one.pattern, subject)
        }


@given(histories(), st.lists(subjects(), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_the_table_equals_the_reference_after_every_change(changes: list[Change], asked: list[str]) -> None:
    mesh, reference = InterestTable(), Reference()
    for change in changes:
        mesh.apply(change)
        reference.apply(change)
        assert len(mesh) == len(reference.interests)
        assert {one.key: one for one in mesh} == reference.interests
        for subject in asked:
            matched = mesh.match(subject, Verb.SUBSCRIBE, NOW, "0-1-0")
            plain, members = reference.fitting(subject, ""), reference.fitting(subject, "g")
            assert {one.subscriber for one in matched.plain} == plain
            chosen = {one.subscriber for one in matched.chosen}
            assert chosen <= members - plain
            assert len(matched) == len(plain) + len(chosen)
            assert bool(chosen or members & plain) == bool(members)


@given(histories(), st.randoms(use_true_random=False), st.data())
@settings(max_examples=100, deadline=None)
def test_a_copy_from_the_compacted_topic_and_any_tail_of_the_log_end_where_the_log_does(
    changes: list[Change], chance: Random, data: st.DataObject
) -> None:
    log, copy = InterestTable(), InterestTable()
    for change in changes:
        log.apply(change)
    compacted = [Put(one) for one in log]
    chance.shuffle(compacted)
    tail = data.draw(st.integers(0, len(changes)))
    epochs = [change for change in changes[:tail] if isinstance(change, NewEpoch)]
    for change in [*epochs, *compacted, *changes[tail:]]:
        copy.apply(change)
    assert {one.key: one for one in copy} == {one.key: one for one in log}


@given(patterns(), subjects())
@settings(max_examples=100, deadline=None)
def test_the_trie_equals_the_reference_matcher(pattern: str, subject: str) -> None:
    mesh = InterestTable()
    mesh.apply(Put(interest("a", pattern)))
    assert bool(len(mesh.match(subject, Verb.SUBSCRIBE, NOW, "0-1-0"))) == matches(pattern, subject)
