"""The dashboards of the chart, as code: one module each, and what they are made of.

    python -m helm.dashboards [--check]

writes `helm/meshgate/dashboards/*.json`, which is what is shipped; `--check` writes nothing and ends with 1 when the
files are not what it would write. No library of Grafana's is needed for it: what a panel says of itself is a
title, a description, a unit and its queries, and the rest is the same for all of them.
"""
