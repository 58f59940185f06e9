"""Simulated surroundings for tests: ours, and those of people who use Dray."""
