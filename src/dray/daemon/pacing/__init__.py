"""When a turn syncs, what waits for it, and who is held back: the disk, seen by the loop."""
