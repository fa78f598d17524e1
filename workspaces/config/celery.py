"""Celery wired to Django's settings: `celery -A workspaces.config.celery worker --pool=threads`, and `beat`.

A task is acknowledged after its work; a worker that dies gives it back; a task that comes twice finds the lease
taken or nothing to do. Results are thrown away: the rows are the truth.
"""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workspaces.config.settings")

from django.conf import settings

app = Celery("berth")
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    broker_connection_retry_on_startup=True,
    # A slice lasts seconds; what a killed worker held comes back after two minutes (the sweep is faster).
    broker_transport_options={"visibility_timeout": 120, "socket_timeout": 5, "socket_connect_timeout": 2,
                              "retry_on_timeout": True, "max_retries": 1},
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=1,
    worker_concurrency=8,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    beat_schedule_filename=str(settings.BERTH_DATA / "run" / "beat-schedule"),
    beat_schedule={
        # `expires`: a queue that was stopped for an hour does not run an hour's sweeps.
        "sweep": {"task": "workspaces.sweep", "schedule": 3.0, "options": {"expires": 3.0}},
        "idle": {"task": "workspaces.idle", "schedule": 10.0, "options": {"expires": 10.0}},
        "retention": {"task": "workspaces.retention", "schedule": 60.0, "options": {"expires": 60.0}},
        "checkpoints": {"task": "workspaces.checkpoints", "schedule": 60.0, "options": {"expires": 60.0}},
        "notices": {"task": "workspaces.notices", "schedule": 60.0, "options": {"expires": 60.0}},
        "people": {"task": "workspaces.people", "schedule": 10.0, "options": {"expires": 10.0}},
        "tidy": {"task": "workspaces.tidy", "schedule": 900.0, "options": {"expires": 900.0}},
    },
)
app.autodiscover_tasks(["workspaces"])
