"""`python -m gateway.cli`: the command, by a given interpreter."""

from gateway.cli import main

main()
