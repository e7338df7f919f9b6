"""Measures our runtime and others; `compare_peers.py` is the command."""
