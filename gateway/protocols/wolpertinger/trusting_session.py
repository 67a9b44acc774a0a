"""The session's trust: what the peer proves to us and we to it, and when the session is open for the mesh for it.

    `Authentication.*` of the peer   answered at once; what it gains holds from then on
    `login` of ours                  one step after another, when we have dialled; refused, the session ends

The session is open for the mesh when the peer has proven what `require_trust` asks, and we what `login` asks of us.
"""

from __future__ import annotations

from abc import abstractmethod

from gateway.core.reasons import Reason, Rejected
from gateway.protocols.actions import Identified
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.wolpertinger.authentication import MAX_FAILED_PROOFS, Authority, Gained
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import Call, CallResponse, RemoteError, TrustLevel
from gateway.protocols.wolpertinger.layer_one import LayerOne
from gateway.protocols.wolpertinger.login import Login
from gateway.protocols.wolpertinger.options import Step, WolpertingerOptions


class TrustingSession(LayerOne):
    def __init__(self, settings: SessionSettings, options: WolpertingerOptions) -> None:
        self._authority = Authority(options.auth, settings.token)
        super().__init__(settings, options)
        self.trust = TrustLevel.NONE
        self._login = Login(options, settings.token)
        self._node = ""

    def reconfigure(self, options: WolpertingerOptions) -> None:
        super().reconfigure(options)
        self._authority.reconfigure(options.auth)

    @abstractmethod
    def _log_run(self) -> None:
        """Sends what was received so far to the log."""

    def _started(self, now: float) -> None:
        if self.settings.dialled:
            self.log_in(self.options.login, now)
        self._settle(now)

    def _settle(self, now: float) -> None:
        """Puts into effect what has been proven so far."""
        if not self.opened and self._login.done and self.trust >= self.options.require_trust:
            self._open(now)
        if self.opened and self._node:
            # Frames up to here were sent by who the peer was before.
            self._log_run()
            self._act(Identified(self._node))
            self._node = ""

    def is_still_proven(self, options: WolpertingerOptions) -> bool:
        return self._authority.holds_under(options.auth)

    def _authenticate(self, call: Call, now: float) -> None:
        reply, gained = self._authority.answer(call, self.trust)
        if reply is not None:
            self._send_data(encode(reply), now)
        self._gain(gained, now)
        if self._authority.failed_proofs >= MAX_FAILED_PROOFS:
            self._terminate(str(Reason.UNAUTHENTICATED), "too many wrong proofs")

    def _gain(self, gained: Gained, now: float) -> None:
        self.trust = max(self.trust, gained.trust)
        self.cipher = gained.cipher or self.cipher
        self._node = gained.node or self._node
        self._settle(now)

    def log_in(self, steps: tuple[Step, ...], now: float) -> None:
        """Proves us to the peer, one step after another. If the peer refuses, the session ends."""
        self._login.add(steps)
        self._ask_login(now)

    def _ask_login(self, now: float) -> None:
        if (call := self._login.next_call()) is not None:
            self._send_data(encode(call), now)

    def _logged_in(self, call_id: str, answer: CallResponse | RemoteError, now: float) -> None:
        try:
            gained = self._login.answered(call_id, answer)
        except Rejected as refused:
            self._terminate(str(refused.reason), refused.detail)
            return
        if gained is not None:
            self._gain(gained, now)
        self._ask_login(now)
