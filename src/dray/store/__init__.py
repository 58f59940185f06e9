"""What the queue manager keeps on disk: heap files, a cyclic log, alternating checkpoints."""
