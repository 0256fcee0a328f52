"""Runs damaged inputs through the readers of what others wrote: files, archives, databases, images.

`harness` runs them in a child process with limits (`child`), `mutations` damages good inputs, and `targets/` has the
readers. `test_fuzz.py` runs all of them.
"""
