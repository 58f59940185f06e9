"""`dray info`: the state of the queue manager."""

from __future__ import annotations

import click

from dray.cli.settings import Settings, takes_url_and_json
from dray.model.words import counted, duration, size_text


@click.command()
@takes_url_and_json
def command(settings: Settings) -> None:
    """Show the state of the queue manager: quotas, disk, queues, version, uptime."""
    with settings.connect() as manager:
        info = manager.info()
        queues = manager.queues()
    settings.tell_record(
        info,
        {
            "name": info.name,
            "id": info.id,
            "address": settings.url,
            "version": info.version,
            "process": str(info.pid),
            "running for": duration(info.uptime),
            "queues": str(len(queues)),
            "messages": f"{sum(each.message_count for each in queues):,}",
            "stored": f"{size_text(info.bytes_used)}, quota {size_text(info.quota)}",
            "source journal and dead letters": f"{size_text(info.journal_bytes_used)}, quota"
            f" {size_text(info.journal_quota)}",
            "ahead of commits": f"{size_text(info.ahead_bytes)} of large messages from other"
            " queue managers",
            "express messages": f"{size_text(info.express_in_memory)} in memory, at most"
            f" {size_text(info.express_memory)}",
            "free for messages": f"{size_text(info.disk_free)}, and {size_text(info.low_water)}"
            " stay free",
            "outgoing queues": str(len(info.outgoing_queues)),
            "heap files": str(info.heap_files),
            "since the start": f"{counted(info.syncs, 'sync')},"
            f" {counted(info.groups, 'group')} of the log,"
            f" {counted(info.checkpoints, 'checkpoint')}",
        },
    )
