"""Landing: payload files, the table of what was landed, and the settling of the queue behind it."""
