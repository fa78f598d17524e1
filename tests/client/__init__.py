"""Tests of the Python client and its command line: small ones by hand, the rest against the stack."""
