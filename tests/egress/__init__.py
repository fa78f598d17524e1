"""Tests of what machines may reach: the judge, the relay, the namespace, a whole machine."""
