"""The files of a queue manager: heap files, a cyclic log, alternating checkpoints."""
