"""The queue manager: decides what every request, message and order ack leads to. Never waits."""
