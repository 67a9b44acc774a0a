"""Routes a record of the raw log: bytes in, rows out; no Spark, no socket, no clock.

    rows.route_record [judge → match → encode] ─► outputs, packed into rows

The router runs it on what comes in, `audit`, `replay` and `judging` on what came in once.
"""
