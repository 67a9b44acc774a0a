"""The trie of one verb's patterns, with the answer for each subject kept until a change could alter it.

A pattern's tokens name a path; `*` and `>` are children like others. A subject walks every path that fits it, so the
cost of a match follows the patterns that fit, not those that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.interests.interest import Interest, InterestKey
from gateway.subjects import tokens

NEVER = 1 << 63
"""After every time that an event may have."""
MAX_CACHED_REFERENCES = 2_000_000
"""The cache's bound in references to interests (16 MB of pointers), not in subjects: one subject may have ten thousand
subscribers, and another none. When it is full all of it goes: the tries refill it in microseconds a subject."""
SUBJECT_REFERENCES = 32
"""What a cached subject costs beside its references, in the same measure (its text, two dict entries, the answer)."""

_WILD = frozenset({"*", ">"})


@dataclass(frozen=True, slots=True)
class Found:
    """Everyone who fits a subject and is alive at a time from `since` on, before `until`: `plain` has each subscriber
    once; `groups` the members of each, each once."""

    plain: tuple[Interest, ...]
    groups: tuple[tuple[Interest, ...], ...]
    since: int = 0
    until: int = NEVER


NOBODY = Found((), ())


class _Node:
    __slots__ = ("children", "here")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.here: dict[InterestKey, Interest] = {}


class Index:
    def __init__(self) -> None:
        self._root = _Node()
        self._cache: dict[str, dict[str, Found]] = {}
        self._cached_references = 0

    def put(self, interest: Interest) -> None:
        parts = tokens(interest.pattern)
        node = self._root
        for part in parts:
            node = node.children.setdefault(part, _Node())
        node.here[interest.key] = interest
        self._forget(parts)

    def remove(self, interest: Interest) -> None:
        """Branches that have become empty go, so that a long life of changing patterns holds no memory."""
        parts = tokens(interest.pattern)
        path = [self._root]
        for part in parts:
            path.append(path[-1].children[part])
        del path[-1].here[interest.key]
        for depth in range(len(parts), 0, -1):
            if path[depth].here or path[depth].children:
                break
            del path[depth - 1].children[parts[depth - 1]]
        self._forget(parts)

    def find(self, subject: str, at_us: int) -> Found:
        name = subject.replace("/", ".")
        first = name.partition(".")[0]
        branch = self._cache.get(first)
        found = branch.get(name) if branch is not None else None
        if found is not None and found.since <= at_us < found.until:
            return found
        now = _arrange(_collect(self._root, tokens(name)), at_us)
        if found is None or at_us >= found.until:  # not for an event of before, from an edge whose clock is behind
            self._remember(first, name, now)
        return now

    def below(self, prefix: str) -> Iterator[Interest]:
        """Those whose pattern fits some subject that begins with all of the prefix's tokens and has more."""
        nodes = [self._root]
        for part in tokens(prefix):
            for node in nodes:
                if (rest := node.children.get(">")) is not None:
                    yield from rest.here.values()
            nodes = _step(nodes, part)
        for node in nodes:
            for child in node.children.values():
                yield from _subtree(child)

    def _remember(self, first: str, name: str, found: Found) -> None:
        known = self._cache.get(first, {}).get(name)
        self._cached_references += _weight(found) - (_weight(known) if known is not None else 0)
        if self._cached_references > MAX_CACHED_REFERENCES:
            self._cache.clear()
            self._cached_references = _weight(found)
        self._cache.setdefault(first, {})[name] = found

    def _forget(self, parts: tuple[str, ...]) -> None:
        """Drop the answers that a change to this pattern could alter: one subject's, a first token's, or all."""
        if parts[0] in _WILD:
            self._cache.clear()
            self._cached_references = 0
        elif _WILD.isdisjoint(parts):
            found = self._cache.get(parts[0], {}).pop(".".join(parts), None)
            self._cached_references -= _weight(found) if found is not None else 0
        else:
            self._cached_references -= sum(map(_weight, self._cache.pop(parts[0], {}).values()))


def _weight(found: Found) -> int:
    return SUBJECT_REFERENCES + len(found.plain) + sum(map(len, found.groups))


def _step(nodes: Iterable[_Node], part: str) -> list[_Node]:
    """The nodes one token further. A subject's own `*` or `>` is no wildcard: it fits only those of the patterns."""
    names = ("*",) if part in _WILD else (part, "*")
    return [child for node in nodes for name in names if (child := node.children.get(name)) is not None]


def _collect(root: _Node, parts: tuple[str, ...]) -> list[Interest]:
    found: list[Interest] = []
    nodes = [root]
    for part in parts:
        for node in nodes:
            if (rest := node.children.get(">")) is not None:
                found.extend(rest.here.values())
        nodes = _step(nodes, part)
        if not nodes:
            break
    for node in nodes:
        found.extend(node.here.values())
    return found


def _subtree(node: _Node) -> Iterator[Interest]:
    nodes = [node]
    while nodes:
        node = nodes.pop()
        yield from node.here.values()
        nodes.extend(node.children.values())


def _arrange(interests: list[Interest], at_us: int) -> Found:
    if not interests:
        return NOBODY
    groups: dict[str, dict[str, Interest]] = {}
    since, until = 0, NEVER
    for interest in interests:
        end = interest.expires_at
        if end is not None:
            if end <= at_us:
                since = max(since, end)
                continue
            until = min(until, end)
        members = groups.setdefault(interest.group, {})
        known = members.get(interest.subscriber)
        if known is None or _preference(known) < _preference(interest):
            members[interest.subscriber] = interest
    plain = _in_order(groups.pop("", {}))
    in_groups = tuple(_in_order(members) for _, members in sorted(groups.items()))
    return Found(plain, in_groups, since, until)


def _in_order(members: dict[str, Interest]) -> tuple[Interest, ...]:
    """By subscriber: not by who came first, which differs between two copies of one table."""
    return tuple(members[subscriber] for subscriber in sorted(members))


def _preference(interest: Interest) -> tuple[bool, int, str]:
    """Of a subscriber's overlapping interests the one that lives longest stands for all."""
    return interest.expires_at is None, interest.expires_at or 0, interest.pattern
