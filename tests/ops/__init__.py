"""Tests of the machine room. They start small real processes, never the product."""
