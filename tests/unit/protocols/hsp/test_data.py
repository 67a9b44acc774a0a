"""DATA and DATA_ACK in the session: what is logged, and how a read is cut into frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from gateway.protocols.actions import FramesReceived, Opened, Terminated
from gateway.protocols.hsp.codec import encode, split
from gateway.protocols.hsp.frames import Command, Frame
from tests.unit.protocols.contract.conversation import Conversation, only, received
from tests.unit.protocols.hsp.talk import data, data_ack, hsp


class TestWhatIsLogged:
    def test_the_session_is_open_at_once_for_there_is_no_handshake(self, talk: Conversation) -> None:
        assert talk.acts() == [Opened()]
        assert talk.sends() == b""

    def test_frames_of_one_read_are_logged_together(self, talk: Conversation) -> None:
        run = only(FramesReceived, talk.receives(data() + data_ack(5) + data(18, b"") + data_ack(6)))
        assert run.data == data() + data_ack(5) + data(18, b"") + data_ack(6)
        assert run.lengths == (8, 12, 7, 12)
        assert run.replies == ()

    def test_what_is_not_logged_is_cut_out_of_the_run(self, talk: Conversation) -> None:
        run = only(FramesReceived, talk.receives(b"\x03" + data() + b"\x03\x03" + data(18) + b"\x03"))
        assert (run.data, run.lengths) == (data() + data(18), (8, 8))
        assert talk.sends() == b"\x04" * 4

    def test_a_frame_that_is_not_whole_waits_for_its_rest(self, talk: Conversation) -> None:
        assert only(FramesReceived, talk.receives(data() + data()[:-1])).lengths == (8,)
        assert only(FramesReceived, talk.receives(b"x")).data == data()

    def test_data_owes_no_acknowledgement(self) -> None:
        assert only(FramesReceived, hsp().receives(data())).tag is None

    def test_what_came_before_a_broken_frame_is_logged_before_the_session_ends(self, talk: Conversation) -> None:
        actions = talk.receives(data() + data_ack() + b"\x07" + data())
        assert [type(action) for action in actions[-2:]] == [FramesReceived, Terminated]
        assert only(FramesReceived, actions).lengths == (8, 12)


any_frame = st.builds(
    Frame,
    st.sampled_from([Command.DATA, Command.DATA_ACK, Command.PING]),
    st.just(0),
    st.integers(0, 0xFFFE),
    st.binary(max_size=20),
)


@given(st.lists(any_frame, max_size=12), st.integers(0, 200), st.integers(0, 64))
@profile(max_examples=200, deadline=None)
def test_the_hot_loop_splits_as_the_codec_does(sent: list[Frame], cut: int, limit: int) -> None:
    stream = b"".join(map(encode, sent))[:cut]
    talk = hsp(frame_bytes=limit)
    actions = talk.receives(stream)
    wanted: list[int] = []
    pos, reason = 0, None
    try:
        while size := split(stream, pos, limit):
            wanted += [] if stream[pos] == Command.PING else [size]
            pos += size
    except Exception as refused:
        reason = getattr(refused, "reason", refused)
    assert [length for run in received(actions) for length in run.lengths] == wanted
    assert talk.ended == reason
