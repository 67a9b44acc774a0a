"""A sixth protocol is a folder, what the contract must know of it, and a line in a configuration: nothing else."""

from __future__ import annotations

from gateway.config import parse
from gateway.protocols import protocols
from tests.unit.config.reading import FILE
from tests.unit.protocols.contract.streams import SIXTH, examples, found, stream_protocols

LINE = (
    "mesh: demo\nlisteners: [{name: sixth, protocol: tick, listen: 'tcp://127.0.0.1:5999', content_type: text/plain}]"
)


def test_it_is_there_because_its_folder_is_and_gone_with_it() -> None:
    with found(SIXTH):
        assert SIXTH in protocols()
    assert SIXTH not in protocols()


def test_a_line_in_a_configuration_is_enough_to_listen_for_it() -> None:
    with found(SIXTH) as spec:
        options = parse(LINE, FILE, {}).endpoint("sixth").options
    assert options == spec.options(content_type="text/plain")


def test_it_is_told_the_contract_like_all_others() -> None:
    assert all(examples(name).walk.keys() == examples(name).states.keys() for name in [*stream_protocols(), SIXTH])
