"""The command as a file, as spark-submit and Spark's operators want it: `submit.py router -c FILE`."""

from gateway.cli import main

main()
