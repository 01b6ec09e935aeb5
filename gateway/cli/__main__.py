"""`python -P -m gateway.cli`: how we start ourselves."""

from gateway.cli import main

main()
