"""Rules: streaming Spark SQL over the table `events`; each row found enters the mesh as a new event.

    events ─► SQL (filters, windows, joins) ─► rows: subject, body, content_type, origin, hops ─► raw ─► router

`check` compiles them, `feeding` sees to it that none feeds itself, `found` makes frames of rows, `job` runs them. The
router knows nothing of rules but the frame they write.
"""
