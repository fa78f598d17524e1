"""What is done when a transaction is committed, and once only however often it was asked for. Called by the bells
(`wake`, `nudges`): a restore asks for a checkpoint, an event and an intent, and one ring after all says as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction


@dataclass(frozen=True)
class _Call:
    key: tuple[object, ...]
    call: Callable[[], None]

    def __call__(self) -> None:
        self.call()


def once(key: tuple[object, ...], call: Callable[[], None]) -> None:
    """Of calls with one key the last is made, in the place of all. One that a savepoint may still take back alone
    stands for itself: what was asked for outside of it must be heard all the same."""
    connection = transaction.get_connection()
    savepoints = set(connection.savepoint_ids)
    connection.run_on_commit[:] = [waiting for waiting in connection.run_on_commit
                                   if not (_is_for(waiting[1], key) and set(waiting[0]) == savepoints)]
    transaction.on_commit(_Call(key, call))


def _is_for(call: Callable[[], object], key: tuple[object, ...]) -> bool:
    return isinstance(call, _Call) and call.key == key
