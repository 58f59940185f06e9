"""The commands, one module per noun; `dray.cli.program` loads the one that was asked for."""
