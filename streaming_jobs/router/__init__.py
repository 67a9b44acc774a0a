"""The router: one pass of Python over each raw record, Spark's own dedup, and the sink.

    raw ─► rows.route_record [judge → match → encode] ─► dropDuplicates ─► egress, events, rejected, interests, raw

`plan.py` builds the query, `job.py` runs it. All else is pure: bytes of a record in, rows out, no Spark, no clock.
"""
