"""The interests of peers: the changes that ride in the log, the table they make, and the match of an event."""

from gateway.interests.changes import Change, EndSession, NewEpoch, Put, Remove, Renew, SetFacts, from_bytes, to_bytes
from gateway.interests.interest import Interest, InterestKey, Verb
from gateway.interests.table import AppliedChange, InterestTable, Matched

__all__ = [
    "AppliedChange",
    "Change",
    "EndSession",
    "Interest",
    "InterestKey",
    "InterestTable",
    "Matched",
    "NewEpoch",
    "Put",
    "Remove",
    "Renew",
    "SetFacts",
    "Verb",
    "from_bytes",
    "to_bytes",
]
