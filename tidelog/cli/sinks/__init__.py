"""Outputs of ``tidelog consume`` and ``tail``: terminal and files, and the progress of copying to them."""
