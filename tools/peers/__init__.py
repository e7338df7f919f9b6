"""Measuring other runtimes beside ours; `compare_peers.py` is the command."""
