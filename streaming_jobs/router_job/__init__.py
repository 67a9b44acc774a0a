"""The router: one pass of Python over each raw record (`routing`), Spark's own dedup, and the sink.

    raw ─► worker [routing.rows] ─► dropDuplicates ─► egress, events, rejected, interests, raw

`plan.py` builds the query, `lane.py` keeps it running, `job.py` runs the lanes.
"""
