"""sub, req and serve as a shell sees them, against a mesh of one process; and what every verb refuses."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.cli.console import Exit
from gateway.cli.peer_options import PeerOptions
from gateway.client import Answer, IncomingRequest, NoAnswerError
from gateway.core.content import JSON
from gateway.core.event import Event, Kind
from gateway.protocols import protocols
from tests.unit.client.shell import ask, interests, publish, run, until
from tests.unit.client.threads import beside, mesh_beside, served

pytestmark = pytest.mark.usefixtures("nowhere")


class TestSub:
    def test_events_are_lines_and_the_acknowledgement_is_told_beside_them(self) -> None:
        with mesh_beside("hsp") as mesh, beside(lambda: run(mesh, "sub", "temp.>", "door", "-n", "2")) as subscriber:
            until(lambda: len(interests(mesh)) == 2)
            publish(mesh, "temp.high", b"81")
            publish(mesh, "door", b"\xff")
        result = subscriber.result()
        assert (result.exit_code, result.stdout) == (Exit.OK, "temp.high  81\ndoor  0xff\n")
        assert result.stderr == f"subscribed to temp.> door at tcp://127.0.0.1:{mesh.port}\n"

    def test_with_json_each_event_is_an_object(self) -> None:
        arguments = ("sub", "temp.>", "-n", "1", "--output", "json", "-q")
        with mesh_beside("hsp") as mesh, beside(lambda: run(mesh, *arguments)) as subscriber:
            until(lambda: len(interests(mesh)) == 1)
            publish(mesh, "temp.high", b"81")
        result = subscriber.result()
        expected = {"subject": "temp.high", "kind": "event", "body": "81", "content_type": JSON, "message_id": "1"}
        assert (json.loads(result.stdout), result.stderr) == (expected, "")

    def test_with_reconnect_it_comes_back(self) -> None:
        arguments = ("sub", "temp.>", "-n", "1", "--reconnect")
        with mesh_beside("yamp") as mesh, beside(lambda: run(mesh, *arguments)) as subscriber:
            until(lambda: len(interests(mesh)) == 1)
            before = mesh.peers[0]
            mesh.loop.call_soon_threadsafe(before.drain)
            until(lambda: before not in mesh.peers and len(interests(mesh)) == 1)
            publish(mesh, "temp.high", b"81")
        result = subscriber.result()
        first, second, told = sorted(result.stderr.splitlines(), key=lambda line: line.startswith("away"))
        assert (result.stdout, first.split()[0], second) == ("temp.high  81\n", "subscribed", first)
        assert re.match(r"away for \d+\.\d s: what was published meanwhile is not repeated", told)

    @pytest.mark.parametrize(
        ("options", "pattern"),
        [
            (("--raw",), rb"81\n"),
            (("--timestamps",), rb"2\d{3}-\d\d-\d\dT[\d:.]+Z  temp.high  81\n"),
            (("--headers",), rb"temp.high  81\n  kind: event\n  content_type: application/json\n  message_id: 1\n"),
            (("--timestamps", "--json"), rb'\{"received_at": "2.*Z", "subject": "temp.high", .*\}\n'),
        ],
    )
    def test_events_are_shown_as_they_are_wanted(self, options: tuple[str, ...], pattern: bytes) -> None:
        arguments = ("sub", "temp.>", "-n", "1", "-q", *options)
        with mesh_beside("hsp") as mesh, beside(lambda: run(mesh, *arguments)) as subscriber:
            until(lambda: len(interests(mesh)) == 1)
            publish(mesh, "temp.high", b"81")
        assert re.fullmatch(pattern, subscriber.result().stdout_bytes)

    def test_what_sub_writes_as_json_pub_takes_as_lines(self) -> None:
        with mesh_beside("hsp") as mesh, beside(lambda: run(mesh, "sub", "temp.>", "-n", "1", "--json")) as subscriber:
            until(lambda: len(interests(mesh)) == 1)
            publish(mesh, "temp.high", b"\xff")
        with mesh_beside("hsp") as mesh:
            run(mesh, "pub", "-", "--lines", stdin=subscriber.result().stdout_bytes)
        assert [(event.subject, event.body) for event in mesh.heard] == [("temp.high", b"\xff")]

    def test_bodies_alone_have_nothing_beside_them(self) -> None:
        result = CliRunner().invoke(main, ["sub", "x", "--raw", "--json"])
        assert (result.exit_code, "--raw shows nothing but bodies" in result.stderr) == (Exit.USAGE, True)

    def test_waiting_in_vain_is_an_error(self) -> None:
        with mesh_beside("hsp") as mesh:
            result = run(mesh, "sub", "temp.>", "-n", "1", "--timeout", "0.05", "-q")
        assert result.exit_code == Exit.UNAVAILABLE
        assert result.stderr == f"meshgate: tcp://127.0.0.1:{mesh.port}: no event within 0.05 s\n"

    def test_a_refused_pattern_is_an_error(self) -> None:
        with mesh_beside("yamp") as mesh:
            result = run(mesh, "sub", "forbidden")
        assert result.exit_code == Exit.FAILURE
        assert result.stderr == f"meshgate: tcp://127.0.0.1:{mesh.port}: forbidden: said the loopback mesh\n"


class TestReq:
    def test_the_answer_is_printed(self) -> None:
        async def echo(asked: IncomingRequest) -> Answer:
            return Answer(body=asked.body, content_type=asked.content_type)

        with mesh_beside("hsp") as mesh, served(mesh, "echo", echo):
            text = run(mesh, "req", "echo", "warm")
            octets = run(mesh, "req", "echo", "-", stdin=b"\xff\n")
            told = run(mesh, "req", "echo", "81", "--output", "json")
        assert (text.exit_code, text.stdout_bytes, octets.stdout_bytes) == (Exit.OK, b"warm\n", b"\xff\n")
        assert json.loads(told.stdout) == {"kind": "response", "body": "81", "content_type": JSON}

    def test_progress_is_shown_to_who_wants_it(self) -> None:
        async def slow(asked: IncomingRequest) -> bytes:
            asked.progress(b"half")
            return b"done"

        with mesh_beside("emp") as mesh, served(mesh, "slow", slow):
            results = [run(mesh, "req", "slow", *wanted) for wanted in ((), ("--progress",), ("-v",))]
        assert [result.stdout for result in results] == ["done\n"] * 3
        assert ["progress  half" in result.stderr for result in results] == [False, True, True]

    def test_progress_prolongs_the_time_also_where_nobody_wants_to_see_it(self) -> None:
        async def slow(asked: IncomingRequest) -> Answer:
            for _ in range(4):
                await asyncio.sleep(0.5)
                asked.progress(b"1", JSON)
            return Answer(body=b"2", content_type=JSON)

        with mesh_beside("yamp") as mesh, served(mesh, "slow", slow):
            result = run(mesh, "req", "slow", "--timeout", "1.5")
        assert (result.stdout, result.stderr) == ("2\n", "")

    def test_an_error_without_a_word_is_told_as_such(self) -> None:
        async def refuse(asked: IncomingRequest) -> Answer:
            return Answer(Kind.ERROR)

        for protocol in ("hsp", "yamp"):
            with mesh_beside(protocol) as mesh, served(mesh, "order", refuse):
                result = run(mesh, "req", "order")
            assert result.stderr == "meshgate: order: error: the server gave no reason\n"

    def test_an_error_is_told_with_its_code(self) -> None:
        async def refuse(asked: IncomingRequest) -> Answer:
            return Answer.error("no_stock", f"no {asked.body.decode()}")

        with mesh_beside("yamp") as mesh, served(mesh, "order", refuse):
            result = run(mesh, "req", "order", "7")
            told = run(mesh, "req", "order", "7", "--output", "json")
            nobody = run(mesh, "req", "nobody")
        assert (result.exit_code, result.stderr) == (Exit.FAILURE, "meshgate: order: no_stock: no 7\n")
        assert told.exit_code == Exit.FAILURE
        assert json.loads(json.loads(told.stdout)["body"]) == {"code": "no_stock", "message": "no 7"}
        assert nobody.stderr == "meshgate: nobody: no_responder: said the loopback mesh\n"

    def test_no_answer_in_time_is_an_error_of_its_own(self) -> None:
        async def never(asked: IncomingRequest) -> bytes:
            await asyncio.Event().wait()
            return asked.body

        with mesh_beside("hsp") as mesh, served(mesh, "slow", never):
            result = run(mesh, "req", "slow", "--timeout", "0.05")
        assert result.exit_code == Exit.UNAVAILABLE
        assert result.stderr == f"meshgate: tcp://127.0.0.1:{mesh.port}: no answer on slow within 0.05 s\n"


class TestServe:
    def test_a_command_answers(self) -> None:
        serve = ("serve", "sum.*", "-n", "1", "--", "sh", "-c", 'read numbers; echo "$numbers+$MESHGATE_SUBJECT"')
        with mesh_beside("yamp") as mesh, beside(lambda: run(mesh, *serve)) as server:
            until(lambda: len(interests(mesh)) == 1)
            answer = ask(mesh, "sum.add", b"1")
        assert answer.body == b'"1+sum.add"'
        assert server.result().exit_code == Exit.OK
        assert server.result().stderr == f"serving sum.* at tcp://127.0.0.1:{mesh.port}\n"

    def test_programs_are_told_what_was_answered(self) -> None:
        serve = ("serve", "sum.*", "-n", "1", "--output", "json", "--", "sh", "-c", "cat > in; echo 3")
        with mesh_beside("hsp") as mesh, beside(lambda: run(mesh, *serve)) as server:
            until(lambda: len(interests(mesh)) == 1)
            ask(mesh, "sum.add", b"1")
        [line] = server.result().stdout.splitlines()
        assert json.loads(line) == {
            "subject": "sum.add", "kind": "response", "body": "3", "content_type": "application/json",
        }  # fmt: skip

    def test_lines_of_progress_are_said_and_all_else_is_the_answer(self) -> None:
        line = "cat > in; echo step 1; echo STEP half; echo rest"
        serve = ("serve", "slow", "-n", "1", "--progress-lines", "STEP", "--", "sh", "-c", line)
        heard: list[Event] = []
        with mesh_beside("hsp") as mesh, beside(lambda: run(mesh, *serve)):
            until(lambda: len(interests(mesh)) == 1)
            answer = ask(mesh, "slow", b"", on_progress=heard.append)
        assert (answer.body, answer.content_type) == (b"step 1\nrest", "text/plain")
        assert [event.body for event in heard] == [b"half"]

    def test_a_command_that_fails_is_an_error_with_its_last_words(self) -> None:
        serve = ("serve", "sum.*", "-n", "1", "--", "sh", "-c", "echo looking >&2; echo not found >&2; exit 3")
        with mesh_beside("emp") as mesh, beside(lambda: run(mesh, *serve)):
            until(lambda: len(interests(mesh)) == 1)
            answer = ask(mesh, "sum.add", b"1")
        assert (answer.kind, answer.code, answer.message) == (Kind.ERROR, "failed", "not found")

    def test_a_command_whose_requester_gives_up_is_ended(self, tmp_path: Path) -> None:
        pid = tmp_path / "pid"
        line = f"test -s {pid} && exit 0; echo $$ > {pid}; exec sleep 60"
        with mesh_beside("yamp") as mesh, beside(lambda: run(mesh, "serve", "slow", "-n", "1", "--", "sh", "-c", line)):
            until(lambda: len(interests(mesh)) == 1)
            with pytest.raises(NoAnswerError):
                ask(mesh, "slow", timeout=0.2)
            until(lambda: not Path("/proc", pid.read_text().strip()).exists())
            assert ask(mesh, "slow").ok

    def test_a_command_that_is_not_there_is_found_out_at_once(self) -> None:
        with mesh_beside("hsp") as mesh:
            result = run(mesh, "serve", "sum.*", "--", "no-such-command")
        assert (result.exit_code, result.stderr) == (Exit.FAILURE, "meshgate: there is no command no-such-command\n")


class TestWhatCannotBe:
    @pytest.mark.parametrize(
        ("arguments", "code", "why"),
        [
            (("pub", "", "--to", "127.0.0.1:1"), Exit.USAGE, "a subject must not be empty"),
            (("req", ""), Exit.USAGE, "a subject must not be empty"),
            (("pub", "temp.>", "1"), Exit.USAGE, "temp.> is a pattern: publish to one subject, such as temp.kitchen"),
            (("pub", "temp.*", "--via", "emm"), Exit.USAGE, "temp.* is a pattern"),
            (("pub", "temp..x", "1"), Exit.USAGE, "'temp..x' is no subject: it has an empty token"),
            (("pub", "temp x", "1"), Exit.USAGE, "'temp x' is no subject: a subject has no spaces"),
            (("req", "Math.*"), Exit.USAGE, "Math.* is a pattern"),
            (
                ("pub", "x", "--to", "127.0.0.1:1"),
                Exit.UNAVAILABLE,
                "tcp://127.0.0.1:1: connection refused: is a mesh running there? (meshgate up)",
            ),
            (("pub", "x", "--to", "ftp://x:1"), Exit.USAGE, "yamp runs over tcp://, tls://, ws://, wss://"),
            (("req", "x", "--via", "emm"), Exit.USAGE, "emm has no requests"),
            (("serve", "x", "--via", "emm", "--", "cat"), Exit.USAGE, "emm has no requests"),
            (("pub", "x", "--urgent"), Exit.USAGE, "--urgent is for emm only, and this is yamp"),
            (("sub", "x", "--via", "hsp", "--key", "gateway"), Exit.USAGE, "--key is for emm only, and this is hsp"),
            (("sub", "x", "--via", "emm", "--group", "g"), Exit.USAGE, "--group: emm has no groups"),
            (("sub", "x", "--via", "emm"), Exit.FAILURE, "unauthenticated: only a signed hello may subscribe"),
            (("sub", "x", "--via", "emm", "--verify"), Exit.FAILURE, "--verify needs a trust store"),
            (("pub", "x", "--via", "emm", "--key", "nothing"), Exit.FAILURE, "--key: expected a file"),
            (("pub", "x", "-o", "formats"), Exit.USAGE, "formats is not NAME=VALUE"),
            (("pub", "x", "-o", "formats=[xml]"), Exit.FAILURE, "-o formats.0: Input should be 'json' or 'msgpack'"),
            (("pub", "x", "-o", "formts=[]"), Exit.FAILURE, "-o formts: the protocol has no such option"),
            (("pub", "x", "--to", "me sh"), Exit.USAGE, "me sh: expected host:port with a port up to 65535"),
            (("sub", "x", "--to", "mesh:99999", "--via", "emm"), Exit.USAGE, "mesh:99999: port 99999 is above 65535"),
            (("pub", "x", "--timeout", "abc"), Exit.USAGE, "'abc' is not a valid number of seconds"),
            (("pub", "x", "-n", "abc"), Exit.USAGE, "'abc' is not a valid whole number"),
            (("pub", "x", "--timeout", "0"), Exit.USAGE, "0.0 is not in the range x>0"),
            (("pub", "x", "-o", "formats=["), Exit.USAGE, "the value of formats is no YAML"),
            (("pub", "x", "-o", 'formats=["${NOT_SET}"]'), Exit.USAGE, "formats: the environment has no NOT_SET"),
            (("pub", "x", "--via", "wolpertinger", "--to", "xmpp://x:1"), Exit.USAGE, "xmpp://USER@HOST/PEER"),
        ],
    )
    def test_it_is_told_in_one_line(self, arguments: tuple[str, ...], code: Exit, why: str) -> None:
        result = CliRunner().invoke(main, list(arguments))
        assert result.exit_code == code
        assert why in result.stderr.splitlines()[0]

    def test_where_nobody_answers_and_nothing_was_named_it_is_told_what_was_tried(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = replace(protocols()["yamp"], default_port=1)
        monkeypatch.setattr(PeerOptions, "spec", spec)
        result = CliRunner().invoke(main, ["pub", "x"])
        assert result.exit_code == Exit.UNAVAILABLE
        assert result.stderr == (
            "meshgate: tcp://127.0.0.1:1: connection refused: is a mesh running there? (meshgate up)"
            " (no meshgate.yaml here: yamp's own port was tried)\n"
        )
        named = CliRunner().invoke(main, ["pub", "x", "--to", "127.0.0.1:1"]).stderr
        assert named.endswith("(meshgate up)\n")

    @pytest.mark.parametrize(
        ("there", "spoken", "happened"),
        [
            ("hsp", "yamp", "the session ended: eof"),
            ("emp", "hsp", "the session ended: too_large: a payload of 201326592 bytes, the limit is 1048576"),
            ("emp", "yamp", "no session within 1.5 s"),
        ],
    )
    def test_another_protocol_than_is_spoken_there_is_asked_about(self, there: str, spoken: str, happened: str) -> None:
        with mesh_beside(there) as mesh:
            to = ("--to", f"127.0.0.1:{mesh.port}", "--via", spoken)
            result = CliRunner().invoke(main, ["pub", "x", *to, "--timeout", "1.5"])
        hint = f"; does that address speak {spoken}? see --via and --to"
        assert result.exit_code == Exit.UNAVAILABLE
        assert result.stderr == f"meshgate: tcp://127.0.0.1:{mesh.port}: {happened}{hint}\n"


class TestWhereThePeerIs:
    LISTENERS = """
listeners:
  - {name: devices, protocol: emm, listen: "udp://0.0.0.0:6050"}
  - {name: any, protocol: yamp, listen: "tcp://127.0.0.1:0"}
  - {name: web, protocol: yamp, listen: "ws://[::]:6043/mesh"}
  - {name: plc, protocol: hsp, listen: "tcp://127.0.0.1:6041"}
  - {name: secure, protocol: hsp, listen: "tls://127.0.0.1:6141", tls: {cert: a.pem, key: a.key}}
"""

    def peer(self, via: str, *, to: str | None = None, tls: bool = False, config: str | None = None) -> PeerOptions:
        return PeerOptions(config, via, to, tls=tls)

    @pytest.mark.parametrize(
        ("via", "tls", "address"),
        [
            ("emm", False, "udp://127.0.0.1:6050"),
            ("yamp", False, "ws://[::1]:6043/mesh"),
            ("hsp", False, "tcp://127.0.0.1:6041"),
            ("hsp", True, "tls://127.0.0.1:6141"),
            ("emp", False, "tcp://127.0.0.1:5040"),
        ],
    )
    def test_it_is_the_first_listener_of_the_protocol(self, via: str, tls: bool, address: str) -> None:
        Path("meshgate.yaml").write_text("mesh: demo" + self.LISTENERS)
        assert str(self.peer(via, tls=tls).address()) == address

    def test_without_a_configuration_it_is_the_protocols_own_port_here(self) -> None:
        assert str(self.peer("wolpertinger").address()) == "tcp://127.0.0.1:5044"

    def test_what_is_named_goes_before_any_configuration(self) -> None:
        Path("meshgate.yaml").write_text("mesh: [broken")
        assert str(self.peer("hsp", to="plc:1").address()) == "tcp://plc:1"

    def test_a_configuration_that_is_named_must_be_good(self) -> None:
        result = CliRunner().invoke(main, ["pub", "x", "-c", "none.yaml"])
        assert result.exit_code == Exit.CONFIG
