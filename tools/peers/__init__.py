"""Measures other runtimes and ours; `compare_peers.py` is the command."""
