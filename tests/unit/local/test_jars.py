"""Jars come whole and as they are pinned, over several connections, from a real web server."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.core.errors import SetupError
from gateway.local.jar_fetch import MIRROR_VARIABLE, JarFetch, Pin, central, repository
from gateway.local.jars import JarSet, fetch, jar_set, missing_sets


def content(number: int) -> bytes:
    return bytes([number]) * (100_000 + number)


def pin(number: int) -> Pin:
    return Pin(f"org.example:jar-{number}:1.0", hashlib.sha256(content(number)).hexdigest(), len(content(number)))


PINS = [pin(number) for number in range(9)]


class Repository(http.server.SimpleHTTPRequestHandler):
    """Answers a range with it, as Maven Central does, and keeps what it was asked for."""

    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        begin = self.headers.get("Range", "")
        type(self).asked.append((Path(self.path).name, begin or None))
        path = Path(self.translate_path(self.path))
        if not path.exists():
            self.send_error(404)
            return
        data = path.read_bytes()
        at = int(begin.removeprefix("bytes=").removesuffix("-")) if begin else 0
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data) - at))
        self.end_headers()
        self.wfile.write(data[at:])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, list[tuple[str, str | None]]]]:
    root = tmp_path / "repository"
    for number, each in enumerate(PINS):
        path = root / each.path
        path.parent.mkdir(parents=True)
        path.write_bytes(content(number))
    asked: list[tuple[str, str | None]] = []
    handler = type("Handler", (Repository,), {"asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv(MIRROR_VARIABLE, f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("MESHGATE_CACHE", str(tmp_path / "cache"))
        yield root, asked
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    return folder


def test_a_set_appears_whole_in_the_cache(served: tuple[Path, object]) -> None:
    wanted = JarSet("test", tuple(PINS))
    seen: list[tuple[int, int]] = []
    fetch(wanted, lambda done, of: seen.append((done, of)))
    assert [path.read_bytes() for path in sorted(wanted.folder.iterdir())] == [content(n) for n in range(9)]
    assert seen[-1] == (wanted.size_bytes, wanted.size_bytes)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_what_came_before_is_not_fetched_again(served: tuple[Path, list[tuple[str, str | None]]], folder: Path) -> None:
    _, asked = served
    (folder / PINS[0].file_name).write_bytes(content(0))
    (folder / f"{PINS[1].file_name}.part").write_bytes(content(1)[:70_000])
    JarFetch(PINS[:3], folder).run()
    assert (folder / PINS[1].file_name).read_bytes() == content(1)
    assert sorted(asked) == [("jar-1-1.0.jar", "bytes=70000-"), ("jar-2-1.0.jar", None)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [(b"\xff" * len(content(4)), "pinned is"), (content(4) + b"more", "larger"), (content(4)[:-1], "ended after")],
)
def test_a_jar_that_is_not_as_pinned_is_refused(
    served: tuple[Path, object], folder: Path, changed: bytes, why: str
) -> None:
    (served[0] / PINS[4].path).write_bytes(changed)
    with pytest.raises(SetupError, match=why):
        JarFetch(PINS, folder).run()
    assert not (folder / PINS[4].file_name).exists()
    assert len(list(folder.glob("*.jar"))) == len(PINS) - 1


def test_a_begun_jar_that_turns_out_wrong_is_fetched_anew(served: tuple[Path, object], folder: Path) -> None:
    (folder / f"{PINS[1].file_name}.part").write_bytes(b"x" * 70_000)
    JarFetch(PINS[:3], folder).run()
    assert (folder / PINS[1].file_name).read_bytes() == content(1)


def test_without_a_network_it_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, "http://127.0.0.1:1/maven2")
    with pytest.raises(SetupError) as caught:
        JarFetch(PINS, folder).run()
    message = str(caught.value)
    assert message.startswith("could not fetch 9 jars from http://127.0.0.1:1/maven2 (first: org.example:jar-8:1.0: ")
    assert "check the network and run the command again" in message
    assert MIRROR_VARIABLE in message
    assert "\n" not in message


def test_a_mirror_without_the_jar_is_named(served: tuple[Path, object], folder: Path) -> None:
    (served[0] / PINS[2].path).unlink()
    with pytest.raises(SetupError, match=r"could not fetch 1 jar.*jar-2:1\.0: the server answers 404"):
        JarFetch(PINS, folder).run()


def test_a_mirror_is_a_web_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    assert repository() == central()
    monkeypatch.setenv(MIRROR_VARIABLE, "file:///etc")
    with pytest.raises(SetupError, match="expected an address"):
        repository()


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MESHGATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupError, match="set MESHGATE_CACHE to another folder"):
        fetch(JarSet("test", tuple(PINS)))


def test_a_full_disk_is_told_as_that(served: tuple[Path, object]) -> None:
    wanted = JarSet("test", tuple(PINS))
    parts = wanted.folder.with_name(f".{wanted.folder.name}.parts")
    parts.mkdir(parents=True)
    (parts / f"{PINS[3].file_name}.part").symlink_to("/dev/full")
    with pytest.raises(SetupError, match=r"cannot write the jar cache .*: No space left on device; make room there"):
        fetch(wanted)


def test_every_pinned_jar_has_its_size() -> None:
    assert all(
        pin.size_bytes > 0 and len(pin.sha256) == 64 for name in ("broker", "connector") for pin in jar_set(name).pins
    )
    assert [one.name for one in missing_sets(["broker"])] in ([], ["broker"])
