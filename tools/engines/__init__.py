"""Measures models in the worker processes of engines; `compare_engines.py` is the command."""
