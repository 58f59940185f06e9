"""What a program may give to a call, and what a call makes of it: arguments checked, messages."""
