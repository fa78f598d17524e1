"""Upstairs as a Django app. Called by Django; calls nothing."""

from django.apps import AppConfig


class WorkspacesConfig(AppConfig):
    name = "workspaces"
    verbose_name = "Workspaces"
