"""How the test models are made; `make_models.py` is the command."""
