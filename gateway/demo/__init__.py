"""Sample traffic: peers of every protocol that talk to each other through a running mesh, for as long as was asked."""

from __future__ import annotations
