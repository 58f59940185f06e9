"""The log, written at each sync, and the checkpoints that let the log begin again."""
