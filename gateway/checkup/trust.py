"""Keys and certificates: whether they hold, for how many days more, and who can read them."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from gateway.auth import trust_file
from gateway.auth.key_admin import ListedKey, list_keys
from gateway.checkup.findings import Finding, Level, graded
from gateway.config import Config
from gateway.config.needed_files import named_files
from gateway.core.quantity import quantity
from gateway.core.yaml_files.faults import ConfigError

WARN_DAYS, FAIL_DAYS = 30.0, 3.0
"""A month is time to renew a certificate in working hours; three days are not a weekend."""
DAY_SECONDS = 86_400.0


def check_trust(config: Config, now: datetime) -> Iterator[Finding]:
    yield from _keys(config, now)
    yield from _certificates(config, now)
    yield from _readable(config)


def _keys(config: Config, now: datetime) -> Iterator[Finding]:
    if not config.trust.exists():
        yield Finding("trust keys", Level.WARN, f"there is no {config.trust} yet", "meshgate up or init makes it")
        return
    try:
        entry = config.identity.key
        identity = trust_file.load(config.trust, entry=entry).identity
        listed = list_keys(config.trust, now, entry=entry)
    except ConfigError as faulty:
        yield Finding("trust keys", Level.FAIL, str(faulty.faults[0]), "meshgate validate")
        return
    if identity is None:
        text = f"{config.trust} has no entry {entry}"
        yield Finding("trust gateway", Level.FAIL, text, "meshgate up or init makes it")
    yield judge_keys(listed, now)


def judge_keys(listed: list[ListedKey], now: datetime) -> Finding:
    """Judges the nodes by the key of each that holds longest: old keys end after every rotation, as they should."""
    days: dict[str, float] = {}
    for key in listed:
        days_left = float("inf")
        if key.state == "expired":
            days_left = -1.0
        elif key.not_after is not None:
            days_left = (datetime.fromisoformat(key.not_after) - now).total_seconds() / DAY_SECONDS
        days[key.node] = max(days.get(key.node, days_left), days_left)
    ended = [node for node, days_left in days.items() if days_left <= 0]
    ending = [node for node, days_left in days.items() if 0 < days_left <= WARN_DAYS]
    if ended:  # without a key that holds there is none to make a new one like
        text, remedy = f"no key holds any more of {_some(ended)}", "meshgate keys new NODE, unless it is gone for good"
        return Finding("trust keys", Level.WARN, text, remedy, len(ended))
    if ending:
        return Finding(
            "trust keys",
            Level.WARN,
            f"the last key ends within {WARN_DAYS:.0f} days of {_some(ending)}",
            "meshgate keys rotate NODE",
            len(ending),
        )
    return Finding("trust keys", Level.OK, f"{quantity(len(listed), 'key')} of {quantity(len(days), 'node')}", value=0)


def _some(nodes: list[str]) -> str:
    """
    >>> _some(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return ", ".join(nodes[:3]) + more


def _certificates(config: Config, now: datetime) -> Iterator[Finding]:
    for setting, path in named_files(config):
        if path is not None and not setting.endswith(".key") and setting != "trust":
            yield judge_certificates(setting, path, now)


def judge_certificates(setting: str, path: Path, now: datetime) -> Finding:
    """Judges a PEM file by the certificate in it that ends first."""
    check = f"trust {setting}"
    try:
        last_end = min(
            certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(path.read_bytes())
        )
    except (OSError, ValueError) as unusable:
        why = unusable.strerror if isinstance(unusable, OSError) else "it holds no certificate (PEM)"
        return Finding(check, Level.FAIL, f"{path} is of no use: {why}", f"put a PEM file there, or mend {setting}")
    days = (last_end - now.astimezone(UTC)).total_seconds() / DAY_SECONDS
    level = graded(days, warn_below=WARN_DAYS, fail_below=FAIL_DAYS)
    remedy = "renew it: the edge takes it over without a restart" if level else ""
    whole = quantity(round(abs(days)), "day")
    text = f"{path.name} ends in {whole}" if days > 0 else f"{path.name} ended {whole} ago"
    return Finding(check, level, text, remedy, round(days, 1), "days")


def _readable(config: Config) -> Iterator[Finding]:
    """Everyone on the machine could sign as the gateway, or as any node."""
    secret = [("trust", config.trust)] + [(name, path) for name, path in named_files(config) if name.endswith(".key")]
    open_files = {
        setting: path
        for setting, path in secret
        if path is not None and path.is_file() and path.stat().st_mode & stat.S_IROTH
    }
    if open_files:
        text = f"others on this machine can read {', '.join(open_files)}"
        yield Finding("trust files", Level.WARN, text, f"chmod 600 {shlex.join(map(str, open_files.values()))}")
    else:
        yield Finding("trust files", Level.OK, "only the owner can read secrets")
