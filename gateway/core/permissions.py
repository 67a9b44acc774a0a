"""Decides who may publish, subscribe and serve what: rules over node, listener and subject. The first match decides.

1. Nobody but the mesh publishes or serves under `mesh.`, whatever the rules say; anyone may subscribe there.
2. Whom no rule matches may do everything else, as a user without permissions may in NATS; to close a mesh, end the
   rules with one for the node `*`. That holds for sessions without a proven node (`anon:<edge>:<session>`) too:
   listeners decide who gets in, rules decide what those inside may do, and `anon:*` names them.
3. A subscription is allowed if one allowed pattern contains it and no denied one does. So `>` beside the denied
   `admin.>` stands, and what it must not see is withheld event by event (`may_receive`), also after a reload.
4. A served pattern must not even touch a denied one: a request has one server, so nothing may be withheld from it.
   What a reload denies to one that serves already goes to the others, request by request (`may_be_asked`).
5. The control subjects stand in no list: `mesh.subscribe` and `mesh.serve` are judged by the pattern that they name,
   `mesh.unsubscribe` and `mesh.unserve` only take back what is one's own, `mesh.login` is what makes a stranger known,
   and `mesh.ping` is answered to whoever may do anything at all.

>>> guests = Rule(nodes=("anon:*",), publish=Grant(allow=("order.>",)), subscribe=Grant(deny=("admin.>",)))
>>> judge = Permissions((guests,))
>>> judge.may_publish("anon:edge-0:7", "web", "order.new"), judge.may_publish("anon:edge-0:7", "web", "admin.off")
(True, False)
>>> judge.may_subscribe("anon:edge-0:7", "web", ">"), judge.may_receive("anon:edge-0:7", "web", "admin.off")
(True, False)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from gateway.core.subjects import is_control, matches, tokens

CACHED_RULES = 65_536
"""Which rule holds for a (node, listener) is asked for every frame; beyond this many pairs the cache starts over."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The patterns of a rule. What is denied is refused even if it is allowed."""

    allow: tuple[str, ...] = (">",)
    deny: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing is allowed, or all of it is denied."""
        return not self.allow or ">" in self.deny

    def covers(self, subject: str) -> bool:
        return self is EVERYTHING or (_any_matches(self.allow, subject) and not _any_matches(self.deny, subject))

    def covers_some_of(self, pattern: str) -> bool:
        """Returns True if the pattern stays within what is allowed, and something of it is not denied."""
        return _any_contains(self.allow, pattern) and not _any_contains(self.deny, pattern)

    def covers_all_of(self, pattern: str) -> bool:
        return _any_contains(self.allow, pattern) and not any(overlaps(denied, pattern) for denied in self.deny)


EVERYTHING = Grant()
ANY = ("*",)


@dataclass(frozen=True, slots=True)
class Rule:
    """Applies to nodes and listeners that match the globs, except listeners named in `besides`."""

    nodes: tuple[str, ...] = ANY
    listeners: tuple[str, ...] = ANY
    publish: Grant = EVERYTHING
    subscribe: Grant = EVERYTHING
    serve: Grant = EVERYTHING
    besides: frozenset[str] = frozenset()

    def applies(self, node: str, listener: str) -> bool:
        return self.concerns(listener) and _any_glob(self.nodes, node)

    def concerns(self, listener: str) -> bool:
        """True if some node that came by this listener may be meant."""
        return listener not in self.besides and _any_glob(self.listeners, listener)

    @property
    def grants_nothing(self) -> bool:
        return self.publish.is_empty and self.subscribe.is_empty and self.serve.is_empty


UNRULED = Rule()


@dataclass(frozen=True, slots=True)
class Permissions:
    rules: tuple[Rule, ...] = ()
    _rules_found: dict[tuple[str, str], Rule] = field(default_factory=dict, init=False, repr=False, compare=False)

    def concern(self, listener: str) -> bool:
        """True if any rule may hold for what comes by this listener."""
        return any(rule.concerns(listener) for rule in self.rules)

    def may_publish(self, node: str, listener: str, subject: str) -> bool:
        """Returns True if the node may send events and requests. Answers need no permission: they were asked for."""
        return not is_control(subject) and self.rule_of(node, listener).publish.covers(subject)

    def may_subscribe(self, node: str, listener: str, pattern: str) -> bool:
        return self.rule_of(node, listener).subscribe.covers_some_of(pattern)

    def may_receive(self, node: str, listener: str, subject: str) -> bool:
        """Returns True if the node may receive on this subject. Called for each event that a subscription matched."""
        return self.rule_of(node, listener).subscribe.covers(subject)

    def may_serve(self, node: str, listener: str, pattern: str) -> bool:
        return not is_control(pattern) and self.rule_of(node, listener).serve.covers_all_of(pattern)

    def may_be_asked(self, node: str, listener: str, subject: str) -> bool:
        """Returns True if the node may serve this subject. Called for each request, for those who serve its subject."""
        return self.rule_of(node, listener).serve.covers(subject)

    def may_do_anything(self, node: str, listener: str) -> bool:
        """Returns True if the node may publish, subscribe to or serve any subject. The mesh pings nobody else back."""
        return not self.rule_of(node, listener).grants_nothing

    def rule_of(self, node: str, listener: str) -> Rule:
        """Returns the rule that decides about this node when it comes by this listener."""
        rule = self._rules_found.get((node, listener))
        if rule is None:
            rule = next((rule for rule in self.rules if rule.applies(node, listener)), UNRULED)
            if len(self._rules_found) >= CACHED_RULES:
                self._rules_found.clear()
            self._rules_found[node, listener] = rule
        return rule


def contains(outer: str, inner: str) -> bool:
    """Returns True if `outer` matches every subject that `inner` matches."""
    wide, narrow = tokens(outer), tokens(inner)
    for at, part in enumerate(wide):
        if part == ">":
            return len(narrow) > at
        if at >= len(narrow) or narrow[at] == ">" or part not in ("*", narrow[at]):
            return False
    return len(narrow) == len(wide)


def overlaps(pattern: str, other: str) -> bool:
    """Returns True if both match some subject."""
    left, right = tokens(pattern), tokens(other)
    for part, other_part in zip(left, right, strict=False):
        if ">" in (part, other_part):
            return True
        if "*" not in (part, other_part) and part != other_part:
            return False
    return len(left) == len(right)


def _any_matches(patterns: tuple[str, ...], subject: str) -> bool:
    return any(pattern == ">" or matches(pattern, subject) for pattern in patterns)


def _any_contains(patterns: tuple[str, ...], pattern: str) -> bool:
    return any(contains(outer, pattern) for outer in patterns)


def _any_glob(globs: tuple[str, ...], text: str) -> bool:
    """`*` and `?` alone: a `[` may stand in a name."""
    return any(fnmatchcase(text, glob.replace("[", "[[]")) for glob in globs)
