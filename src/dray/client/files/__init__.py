"""Payloads on this side: where a body is read from, its digest, files that are saved in part."""
