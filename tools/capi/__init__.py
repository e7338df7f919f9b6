"""The steps of check_c.py, by the kind of program."""
