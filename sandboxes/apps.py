"""Downstairs as a Django app (its rows only). Called by Django; calls nothing; hostd never imports it."""

from django.apps import AppConfig


class SandboxesConfig(AppConfig):
    name = "sandboxes"
    verbose_name = "Sandboxes"
