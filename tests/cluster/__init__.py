"""Tests of what the project renders against the programs that will read it."""
