"""Rings reconcile's bell after commit. Called by services and the courier; calls Celery; a lost ring is made good
by the sweep within seconds.
"""

from __future__ import annotations

import logging

from workspaces.on_commit import once

logger = logging.getLogger(__name__)


def after_commit(workspace_id: str) -> None:
    once(("wake", workspace_id), lambda: ring(workspace_id))


def ring(workspace_id: str) -> None:
    """Never raises and never waits long: a broker that is away must not fail what has been committed."""
    from workspaces.tasks import reconcile

    try:
        reconcile.apply_async((workspace_id,), retry=False, ignore_result=True)
    except Exception as error:  # whatever the transport raises; the sweep asks again
        logger.warning("the bell for %s was not heard (%s); the sweep will find it", workspace_id, error)
