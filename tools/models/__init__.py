"""Generators of the test models; `make_models.py` is the command."""
