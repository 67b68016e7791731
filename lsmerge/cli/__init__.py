"""The command line, `lsmerge`: needs the extra `cli` (click and rich) and uses only public names of lsmerge.

Each command is a module of its own with an object `command`, listed in `app.py` and imported when it is called. All of
them print for people or, with `--json`, one document or one line of JSON per row; what goes wrong is one line on
standard error and a number (`failures.py`).
"""
