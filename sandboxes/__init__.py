"""Downstairs: knows machines, not people."""
