"""The configuration as it holds, with and without its secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from pydantic import Field, SecretStr

from gateway.config import redacted, unredacted
from gateway.config.effective import REDACTED
from gateway.protocols.spec import Options
from tests.unit.config.reading import WHOLE, read

SECRET = "hunter2"
WITH_SECRETS = WHOLE.replace(
    "  partitions: 4", f"  partitions: 4\n  security: {{protocol: SASL_SSL, username: mesh, password: {SECRET}}}"
)


def test_what_is_printed_can_be_read_again_and_means_the_same() -> None:
    config = read(WITH_SECRETS)
    assert read(yaml.safe_dump(unredacted(config))) == config


def test_defaults_are_in_it() -> None:
    assert unredacted(read("mesh: demo"))["limits"]["handshake_seconds"] == 5


def test_a_listener_shows_the_limits_it_sets_itself_and_no_others() -> None:
    text = "mesh: demo\nlisteners: [{name: a, protocol: emm, listen: 'udp://h:1', connections: 3}]"
    (listener,) = unredacted(read(text))["listeners"]
    assert listener["connections"] == 3
    assert "idle_seconds" not in listener
    assert listener["unauthenticated"] == "reject"


def test_redacted_it_is_the_same_but_for_the_secrets() -> None:
    config = read(WITH_SECRETS)
    hidden, whole = redacted(config), unredacted(config)
    assert SECRET not in json.dumps(hidden)
    assert hidden["kafka"]["security"].pop("password") == REDACTED
    assert whole["kafka"]["security"].pop("password") == SECRET
    assert hidden == whole


def test_the_secret_of_a_component_is_hidden_and_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    xmpp = f"xmpp: {{domain: mesh.example.org, secret: '${{file:{tmp_path}/secret}}'}}"
    config = read(f"mesh: demo\nlisteners: [{{name: a, protocol: wolpertinger, listen: 'xmpp://h:1', {xmpp}}}]")
    (hidden,), (whole,) = redacted(config)["listeners"], unredacted(config)["listeners"]
    assert hidden["xmpp"] == {"domain": "mesh.example.org", "secret": REDACTED}
    assert whole["xmpp"]["secret"] == SECRET


class OpenOptions(Options):
    """What a protocol should not do, and what must not leak when one does."""

    auth: dict[str, object] = Field(default_factory=dict)
    public_key: str = "pinned"
    bearer_token: str | None = None
    pin: SecretStr = SecretStr("")


def shown(options: OpenOptions) -> dict[str, object]:
    """A listener with these options, redacted."""
    listener = read("mesh: demo\nlisteners: [{name: a, protocol: emm, listen: 'udp://h:1'}]").listeners[0]
    config = read("mesh: demo").model_copy(update={"listeners": (listener.model_copy(update={"options": options}),)})
    (found,) = redacted(config)["listeners"]
    return dict(found)


@pytest.mark.parametrize(
    "auth", [{"cluster_key": SECRET}, {"users": {"ann": SECRET}}, {"passwords": [SECRET]}, {"a": {"hmac": SECRET}}]
)
def test_what_is_secret_by_its_name_is_hidden_even_where_its_type_does_not_say_so(auth: dict[str, object]) -> None:
    found = shown(OpenOptions(auth=auth, bearer_token=SECRET, pin=SecretStr(SECRET)))
    assert SECRET not in json.dumps(found)
    assert found["public_key"] == "pinned"


def test_the_names_of_users_stay_readable() -> None:
    assert shown(OpenOptions(auth={"users": {"ann": SECRET}}))["auth"] == {"users": {"ann": REDACTED}}
