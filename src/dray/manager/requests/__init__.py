"""The requests of clients: each module answers a few kinds.

`Requests` has the table from frame to function, and what requests leave for later. A stopped store
is backed up by the same code as a running one: `BackupRun`.

These ask it: `dispatch` and `dray.offline`.
"""

from dray.manager.requests.backup import BACKUP_CHECK, BackupRun
from dray.manager.requests.requests import BodyHandler, Handler, Requests
