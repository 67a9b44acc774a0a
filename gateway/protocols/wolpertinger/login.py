"""Our own steps towards the peer's trust, one call open at a time."""

from __future__ import annotations

from collections import deque

from gateway.core.reasons import Reason, Rejected
from gateway.protocols.wolpertinger.authentication import (
    COMPONENT,
    Asked,
    Gained,
    Question,
    Token,
    log_in,
)
from gateway.protocols.wolpertinger.frames import (
    ASKED,
    CALL_ID_BYTES,
    Call,
    CallResponse,
    Object,
    RemoteError,
    new_call_id,
)
from gateway.protocols.wolpertinger.options import Step, WolpertingerOptions


class Login:
    def __init__(self, options: WolpertingerOptions, token: Token) -> None:
        self._options = options
        self._token = token
        self._steps: deque[Step] = deque()
        self._next: tuple[Asked, Question] | None = None
        self._waiting: dict[str, Asked] = {}

    @property
    def done(self) -> bool:
        return not self._waiting and not self._next and not self._steps

    def add(self, steps: tuple[Step, ...]) -> None:
        self._steps.extend(steps)

    def asked(self, call_id: str) -> bool:
        return call_id in self._waiting

    def next_call(self) -> Call | None:
        """Returns the next call; None if there is nothing to ask, or the peer has yet to answer."""
        if self._waiting:
            return None
        if self._next is None and self._steps:
            step = log_in(self._steps.popleft(), self._options.auth, self._options.login_user, self._token)
            self._next = step, next(step)
        if self._next is None:
            return None
        (step, (method, parameters)), self._next = self._next, None
        call_id = new_call_id(self._token(CALL_ID_BYTES), ASKED)
        self._waiting[call_id] = step
        return Call(COMPONENT, call_id, method, tuple(Object("string", text) for text in parameters))

    def answered(self, call_id: str, answer: CallResponse | RemoteError) -> Gained | None:
        """Returns what the step gained, if it is over. Raises Rejected if the peer refused it."""
        step = self._waiting.pop(call_id)
        if isinstance(answer, RemoteError):
            raise Rejected(Reason.UNAUTHENTICATED, f"the peer answered our login with error {answer.code}")
        try:
            self._next = step, step.send(None if answer.value is None else answer.value.value)
        except StopIteration as over:
            gained: Gained = over.value
            return gained
        return None
