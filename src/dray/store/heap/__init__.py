"""The heap: payload bytes in files, the maps of their blocks, their descriptors."""
