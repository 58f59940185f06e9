"""Values that all packages share: ids, names, messages, queues and bounds, with their checks."""
