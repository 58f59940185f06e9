"""Files that clients lend: threads copy between them and the heap files."""
