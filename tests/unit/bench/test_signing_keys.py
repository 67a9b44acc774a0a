"""Keys that a run puts into the trust store for its own time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from gateway.auth import key_admin, trust_file
from gateway.auth.keyring import Key
from gateway.auth.verification import public_of
from gateway.bench.signing_keys import bench_keys, bench_node, for_signing
from gateway.bench.workload import Sign, WorkError
from gateway.client import PacketKey
from gateway.protocols.emm.signing import Signer

SECOND = timedelta(seconds=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    key_admin.ensure_identity(tmp_path / "keys.yaml")
    return tmp_path / "keys.yaml"


def held(path: Path, key: PacketKey) -> Key:
    return trust_file.load(path).keys.nodes[key.signer.node][key.signer.key_id or b""]


def holds(path: Path, key: PacketKey, at: datetime) -> bool:
    return held(path, key).valid_at(trust_file.microseconds(at))


def test_each_session_is_a_node_of_its_own_which_the_store_believes(path: Path) -> None:
    now = datetime.now(UTC)
    with bench_keys(path, 3, 60, now) as keys:
        assert len({key.signer.node for key in keys}) == 3
        for key in keys:
            assert key.signer.ed25519_private is not None
            assert held(path, key).hmac == key.signer.hmac
            assert held(path, key).ed25519 == public_of(key.signer.ed25519_private)
            assert holds(path, key, now)


def test_no_key_outlives_a_run_that_was_killed(path: Path) -> None:
    now = datetime.now(UTC)
    with bench_keys(path, 1, 60, now) as keys:
        assert not holds(path, keys[0], now + 61 * SECOND)


def test_after_the_run_its_keys_hold_no_more_but_still_judge_what_it_sent(path: Path) -> None:
    began = datetime.now(UTC)
    with bench_keys(path, 1, 3_600, began) as keys:
        pass
    assert holds(path, keys[0], began)
    assert not holds(path, keys[0], datetime.now(UTC) + 2 * SECOND)


def test_they_end_also_when_the_run_fails(path: Path) -> None:
    with pytest.raises(KeyError), bench_keys(path, 1, 3_600, datetime.now(UTC)) as keys:
        raise KeyError
    assert not holds(path, keys[0], datetime.now(UTC) + 2 * SECOND)


def test_the_next_run_uses_the_same_nodes_with_new_keys(path: Path) -> None:
    with bench_keys(path, 2, 60, datetime.now(UTC)) as first:
        pass
    with bench_keys(path, 2, 60, datetime.now(UTC)) as second:
        pass
    assert [key.signer.node for key in first] == [key.signer.node for key in second]
    assert {key.signer.key_id for key in first}.isdisjoint({key.signer.key_id for key in second})


def test_keys_of_which_the_raw_log_holds_nothing_any_more_are_taken_out(path: Path) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=20)
    with bench_keys(path, 2, 60, long_ago):
        pass
    text = path.read_text()
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    path.write_text(text.replace(today, long_ago.strftime("%Y-%m-%d")))
    with bench_keys(path, 1, 60, datetime.now(UTC)):
        nodes = yaml.safe_load(path.read_text())["nodes"]
    assert [len(nodes[str(bench_node(number))]["keys"]) for number in range(2)] == [1, 0]


def test_nobody_else_s_keys_are_touched(path: Path) -> None:
    made = key_admin.new_key(path)
    before = trust_file.load(path)
    with bench_keys(path, 2, 60, datetime.now(UTC)):
        pass
    after = trust_file.load(path)
    node = bytes.fromhex(made.node.replace("-", ""))
    assert (after.identity, after.keys.nodes[node]) == (before.identity, before.keys.nodes[node])


class TestSigning:
    WHOLE = PacketKey(Signer(bytes(16), bytes(4), b"h" * 32, b"s" * 32))

    @pytest.mark.parametrize(
        ("sign", "parts"), [(Sign.HMAC, (True, False)), (Sign.ED25519, (False, True)), (Sign.BOTH, (True, True))]
    )
    def test_only_the_parts_that_are_wanted_sign(self, sign: Sign, parts: tuple[bool, bool]) -> None:
        signer = for_signing(self.WHOLE, sign).signer
        assert (signer.hmac is not None, signer.ed25519_private is not None) == parts

    @pytest.mark.parametrize("sign", [Sign.HMAC, Sign.ED25519, Sign.BOTH])
    def test_a_part_that_is_missing_is_named_with_a_way_out(self, sign: Sign) -> None:
        with pytest.raises(WorkError) as refused:
            for_signing(PacketKey(Signer(bytes(16), bytes(4))), sign)
        assert "--key auto" in str(refused.value)
