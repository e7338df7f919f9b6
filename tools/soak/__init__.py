"""Requests of all kinds to a server; `soak_server.py` is the command."""
