"""The trust store of a running part: it follows its file, and keeps the keys it has when the file is broken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gateway.auth import trust_file
from gateway.auth.trust_store import INTERVAL_SECONDS, LOAD_SHARE, OWN_SECONDS, TrustStore
from gateway.core.yaml_files.faults import ConfigError

NODE = "00112233-4455-6677-8899-aabbccddeeff"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.yaml"
    path.write_text(keys("00000001"))
    return path


def keys(*ids: str, secret: str = "5e" * 32) -> str:
    entries = ", ".join(f'"{key_id}": {{hmac: "{secret}"}}' for key_id in ids)
    return f"nodes: {{{NODE}: {{keys: {{{entries}}}}}}}\n"


def ids(store: TrustStore) -> list[str]:
    return [key_id.hex() for held in store.keys.nodes.values() for key_id in held]


def test_nothing_has_changed_while_nothing_has(path: Path, clock: Clock) -> None:
    store = TrustStore(path, clock)
    clock.now += INTERVAL_SECONDS
    assert not store.changed()
    assert ids(store) == ["00000001"]


def test_a_change_holds_within_the_interval(path: Path, clock: Clock) -> None:
    store = TrustStore(path, clock)
    path.write_text(keys("00000001", "00000002"))
    clock.now += INTERVAL_SECONDS
    assert store.changed()
    assert ids(store) == ["00000001", "00000002"]
    clock.now += INTERVAL_SECONDS
    assert not store.changed()


def test_a_new_key_holds_before_a_program_that_signs_with_it_has_begun(path: Path, clock: Clock) -> None:
    store = TrustStore(path, clock)
    for number in range(2, 5):
        path.write_text(keys(f"0000000{number}"))
        clock.now += OWN_SECONDS
        assert store.changed()
        assert ids(store) == [f"0000000{number}"]
        path.write_text(keys("00000009"))
        clock.now += OWN_SECONDS * 0.9
        assert not store.changed()


def test_files_that_it_names_are_looked_at_less_often(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "secret").write_text("5e" * 32)
    (tmp_path / "keys.yaml").write_text(keys("00000001", secret="${file:secret}"))
    store = TrustStore(tmp_path / "keys.yaml", clock)
    assert not store.changed()
    (tmp_path / "secret").write_text("5f" * 33)
    clock.now += INTERVAL_SECONDS * 0.9
    assert not store.changed()
    clock.now += INTERVAL_SECONDS * 0.1
    assert store.changed()


def test_a_store_that_takes_long_to_read_is_read_less_often(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_slowly(*arguments: Any, **options: Any) -> trust_file.Trust:
        clock.now += 1.0
        return load(*arguments, **options)

    load = trust_file.load
    store = TrustStore(path, clock)
    monkeypatch.setattr(trust_file, "load", load_slowly)
    path.write_text(keys("00000002"))
    clock.now += INTERVAL_SECONDS
    assert store.changed()
    path.write_text(keys("00000003"))
    clock.now += 1.0 / LOAD_SHARE * 0.9
    assert not store.changed()
    clock.now += 1.0 / LOAD_SHARE * 0.1
    assert store.changed()


def test_a_switched_link_is_seen_though_time_and_size_are_equal(tmp_path: Path, clock: Clock) -> None:
    for name, text in (("first", keys("00000001")), ("second", keys("00000002"))):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1, 1))
    path = tmp_path / "keys.yaml"
    path.symlink_to("first")
    store = TrustStore(path, clock)
    path.unlink()
    path.symlink_to("second")
    clock.now += INTERVAL_SECONDS
    assert store.changed()
    assert ids(store) == ["00000002"]


def test_a_broken_file_leaves_the_old_keys_and_says_why(path: Path, clock: Clock) -> None:
    store = TrustStore(path, clock)
    path.write_text(keys("00000002", secret="5e"))
    clock.now += INTERVAL_SECONDS
    assert not store.changed()
    assert ids(store) == ["00000001"]
    assert "an HMAC secret" in str(store.error)
    path.write_text(keys("00000002"))
    clock.now += INTERVAL_SECONDS
    assert store.changed()
    assert (ids(store), store.error) == (["00000002"], None)


def test_a_file_that_has_gone_leaves_the_old_keys(path: Path, clock: Clock) -> None:
    store = TrustStore(path, clock)
    path.unlink()
    clock.now += INTERVAL_SECONDS
    assert not store.changed()
    assert ids(store) == ["00000001"]
    assert "cannot read it" in str(store.error)


def test_a_change_of_a_file_that_it_names_is_seen(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "secret").write_text("5e" * 32)
    (tmp_path / "keys.yaml").write_text(keys("00000001", secret="${file:secret}"))
    store = TrustStore(tmp_path / "keys.yaml", clock)
    (tmp_path / "secret").write_text("5f" * 33)
    clock.now += INTERVAL_SECONDS
    assert store.changed()
    assert next(key.hmac for held in store.keys.nodes.values() for key in held.values()) == b"\x5f" * 33


def test_what_mends_a_broken_file_may_be_another_file(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "keys.yaml").write_text(keys("00000001"))
    store = TrustStore(tmp_path / "keys.yaml", clock)
    (tmp_path / "keys.yaml").write_text(keys("00000002", secret="${file:secret}"))
    clock.now += INTERVAL_SECONDS
    assert not store.changed()
    (tmp_path / "secret").write_text("5e" * 32)
    clock.now += INTERVAL_SECONDS
    assert store.changed()
    assert ids(store) == ["00000002"]


def test_a_rewritten_file_that_says_the_same_is_no_change(path: Path, clock: Clock) -> None:
    store = TrustStore(path, clock)
    path.write_text("# a comment\n" + keys("00000001"))
    clock.now += INTERVAL_SECONDS
    assert not store.changed()


def test_there_must_be_keys_to_begin_with(path: Path, clock: Clock) -> None:
    path.write_text("nodes: [")
    with pytest.raises(ConfigError) as faulty:
        TrustStore(path, clock)
    assert faulty.value.faults[0].file == str(path)
