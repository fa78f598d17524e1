"""Upstairs as a Django app. Called by Django at start; wires Celery's app and the listeners of facts."""

from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "workspaces"
    verbose_name = "Workspaces"

    def ready(self) -> None:
        # Both register themselves at import: the broker for whoever rings, the receivers for whoever runs plans.
        import workspaces.config.celery
        import workspaces.reconcile  # noqa: F401
