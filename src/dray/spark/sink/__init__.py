"""Batches of a query as messages: tasks stage rows, the driver makes them visible at once."""
