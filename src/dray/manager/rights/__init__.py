"""Which caller may have which frame decided: one table, and what its rows ask."""
