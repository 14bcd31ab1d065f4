"""Decisions: pure functions of (spec, observed, now) to a plan and a status."""
