"""The trie of one verb's patterns, with the answer for each subject kept until a change could alter it.

A pattern's tokens name a path; `*` and `>` are children like others. A subject walks every path that fits it, so the
cost of a match follows the patterns that fit, not those that exist. Where a path leads to one pattern alone, what is
left of that pattern stands in one leaf: thirty tokens of a stranger's take a text, and not thirty nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.core.subjects import tokens
from gateway.interests.interest import Interest, InterestKey

NEVER = 1 << 63
"""After every time that an event may have."""
MAX_CACHED_REFERENCES = 2_000_000
"""The cache's bound in references to interests (16 MB of pointers), not in subjects: one subject may have ten thousand
subscribers, and another none. When it is full all of it goes: the tries refill it in microseconds a subject."""
SUBJECT_REFERENCES = 32
"""The cost of a cached subject beside its references, in the same measure (its text, two dict entries, the answer)."""

_WILD = frozenset({"*", ">"})


@dataclass(frozen=True, slots=True)
class IndexMatch:
    """The subscribers whose interests fit a subject and hold at a time from `since` on, before `until`.

    `plain` has each subscriber once; `groups` has the members of each group, each once.
    """

    plain: tuple[Interest, ...]
    groups: tuple[tuple[Interest, ...], ...]
    since: int = 0
    until: int = NEVER


NOBODY = IndexMatch((), ())


class _Leaf:
    """The interests of one pattern. `rest`: its tokens behind those that lead here, with dots between."""

    __slots__ = ("here", "suffix")

    def __init__(self, suffix: str, here: dict[InterestKey, Interest]) -> None:
        self.suffix = suffix
        self.here = here

    def fits(self, left: tuple[str, ...]) -> bool:
        """True if the rest of the pattern fits these last tokens of a subject."""
        if not self.suffix:
            return not left
        rest_tokens = self.suffix.split(".")
        if rest_tokens[-1] == ">":
            return len(left) >= len(rest_tokens) and _all_fit(rest_tokens[:-1], left)
        return len(left) == len(rest_tokens) and _all_fit(rest_tokens, left)

    def fits_below(self, left: tuple[str, ...]) -> bool:
        """True if it fits some subject that goes on with these tokens and has more."""
        rest_tokens = self.suffix.split(".") if self.suffix else []
        if rest_tokens and rest_tokens[-1] == ">" and len(rest_tokens) <= len(left):
            return _all_fit(rest_tokens[:-1], left)
        return len(rest_tokens) > len(left) and _all_fit(rest_tokens[: len(left)], left)


class _Node:
    __slots__ = ("children", "here")

    def __init__(self) -> None:
        self.children: dict[str, _Node | _Leaf] = {}
        self.here: dict[InterestKey, Interest] = {}

    @classmethod
    def of(cls, leaf: _Leaf) -> _Node:
        """Returns the leaf as a node, with what is left of its pattern one token further."""
        node = cls()
        if leaf.suffix:
            first, _, suffix = leaf.suffix.partition(".")
            node.children[first] = _Leaf(suffix, leaf.here)
        else:
            node.here = leaf.here
        return node


class Index:
    def __init__(self) -> None:
        self._root = _Node()
        self._cache: dict[str, dict[str, IndexMatch]] = {}
        self._cached_references = 0

    def put(self, interest: Interest) -> None:
        parts = tokens(interest.pattern)
        self._place(parts)[interest.key] = interest
        self._forget(parts)

    def _place(self, parts: tuple[str, ...]) -> dict[InterestKey, Interest]:
        """Returns where the interests of a pattern stand, and makes the way there."""
        node = self._root
        for depth, part in enumerate(parts, 1):
            suffix = ".".join(parts[depth:])
            child = node.children.get(part)
            if child is None:
                child = node.children[part] = _Leaf(suffix, {})
            if isinstance(child, _Leaf):
                if child.suffix == suffix:
                    return child.here
                child = node.children[part] = _Node.of(child)
            node = child
        return node.here

    def remove(self, interest: Interest) -> None:
        """Removes an interest. Branches that become empty go, so that changing patterns do not use up memory."""
        parts = tokens(interest.pattern)
        path: list[_Node] = [self._root]
        end: _Node | _Leaf = self._root
        for part in parts:
            end = path[-1].children[part]
            if isinstance(end, _Leaf):
                break
            path.append(end)
        del end.here[interest.key]
        if isinstance(end, _Leaf) and not end.here:
            del path[-1].children[parts[len(path) - 1]]
        for depth in range(len(path) - 1, 0, -1):
            if path[depth].here or path[depth].children:
                break
            del path[depth - 1].children[parts[depth - 1]]
        self._forget(parts)

    def find(self, subject: str, at_us: int) -> IndexMatch:
        name = subject.replace("/", ".")
        first = name.partition(".")[0]
        branch = self._cache.get(first)
        cached = branch.get(name) if branch is not None else None
        if cached is not None and cached.since <= at_us < cached.until:
            return cached
        now = _arrange(_collect(self._root, tokens(name)), at_us)
        if cached is None or at_us >= cached.until:  # not for an event of before, from an edge whose clock is behind
            self._remember(first, name, now)
        return now

    def below(self, prefix: str) -> Iterator[Interest]:
        """Yields the interests whose pattern fits some subject that begins with all of the prefix's tokens and has
        more."""
        nodes, parts = [self._root], tokens(prefix)
        for depth, part in enumerate(parts, 1):
            for node in nodes:
                if (tail := node.children.get(">")) is not None:
                    yield from tail.here.values()
            nodes, leaves = _step(nodes, part)
            for leaf in leaves:
                if leaf.fits_below(parts[depth:]):
                    yield from leaf.here.values()
        for node in nodes:
            for child in node.children.values():
                yield from _subtree(child)

    def _remember(self, first: str, name: str, match: IndexMatch) -> None:
        previous = self._cache.get(first, {}).get(name)
        self._cached_references += _weight(match) - (_weight(previous) if previous is not None else 0)
        if self._cached_references > MAX_CACHED_REFERENCES:
            self._cache.clear()
            self._cached_references = _weight(match)
        self._cache.setdefault(first, {})[name] = match

    def _forget(self, parts: tuple[str, ...]) -> None:
        """Drop the answers that a change to this pattern could alter: one subject's, a first token's, or all."""
        if parts[0] in _WILD:
            self._cache.clear()
            self._cached_references = 0
        elif _WILD.isdisjoint(parts):
            branch = self._cache.get(parts[0], {})
            forgotten = branch.pop(".".join(parts), None)
            if not branch:
                self._cache.pop(parts[0], None)
            self._cached_references -= _weight(forgotten) if forgotten is not None else 0
        else:
            self._cached_references -= sum(map(_weight, self._cache.pop(parts[0], {}).values()))


def _weight(match: IndexMatch) -> int:
    return SUBJECT_REFERENCES + len(match.plain) + sum(map(len, match.groups))


def _all_fit(pattern_tokens: list[str], left: tuple[str, ...]) -> bool:
    return all(
        name == "*" or (name == part and part not in _WILD) for name, part in zip(pattern_tokens, left, strict=False)
    )


def _step(nodes: Iterable[_Node], part: str) -> tuple[list[_Node], list[_Leaf]]:
    """The nodes and leaves one token further. A subject's own `*` or `>` is no wildcard: it fits only the patterns'."""
    names = ("*",) if part in _WILD else (part, "*")
    further: list[_Node] = []
    leaves: list[_Leaf] = []
    for node in nodes:
        for name in names:
            child = node.children.get(name)
            if isinstance(child, _Node):
                further.append(child)
            elif child is not None:
                leaves.append(child)
    return further, leaves


def _collect(root: _Node, parts: tuple[str, ...]) -> list[Interest]:
    interests: list[Interest] = []
    nodes = [root]
    for depth, part in enumerate(parts, 1):
        for node in nodes:
            if (tail := node.children.get(">")) is not None:
                interests.extend(tail.here.values())
        nodes, leaves = _step(nodes, part)
        for leaf in leaves:
            if leaf.fits(parts[depth:]):
                interests.extend(leaf.here.values())
        if not nodes:
            break
    for node in nodes:
        interests.extend(node.here.values())
    return interests


def _subtree(node: _Node | _Leaf) -> Iterator[Interest]:
    nodes = [node]
    while nodes:
        node = nodes.pop()
        yield from node.here.values()
        if isinstance(node, _Node):
            nodes.extend(node.children.values())


def _arrange(interests: list[Interest], at_us: int) -> IndexMatch:
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
        existing = members.get(interest.subscriber)
        if existing is None or _preference(existing) < _preference(interest):
            members[interest.subscriber] = interest
    plain = _in_order(groups.pop("", {}))
    in_groups = tuple(_in_order(members) for _, members in sorted(groups.items()))
    return IndexMatch(plain, in_groups, since, until)


def _in_order(members: dict[str, Interest]) -> tuple[Interest, ...]:
    """Returns the members by subscriber, and not by who came first: that differs between two copies of one table."""
    return tuple(members[subscriber] for subscriber in sorted(members))


def _preference(interest: Interest) -> tuple[bool, int, str]:
    """Orders a subscriber's overlapping interests: the one that lives longest stands for all."""
    return interest.expires_at is None, interest.expires_at or 0, interest.pattern
