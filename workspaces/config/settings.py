"""The settings: what is wired to what. Read by Django, Channels and Celery; reads `place` and the environment.

Environment: BERTH_DATA, BERTH_DATABASE_URL, BERTH_REDIS_URL, BERTH_PUBLIC_URL (https:// turns on TLS-only cookies),
BERTH_HOSTS (more names this instance answers to), BERTH_PREVIEW_DOMAIN, BERTH_QUOTA_WORKSPACES, BERTH_QUOTA_CPUS,
BERTH_QUOTA_MEMORY_MIB, BERTH_TRASH_S, BERTH_LOG_LEVEL.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workspaces.api import openapi_words
from workspaces.config import place

TREE = Path(__file__).resolve().parent.parent.parent
BERTH_DATA = place.data_folder()
SECRET_KEY = place.secret_key(BERTH_DATA)
DEBUG = False

PUBLIC_URL = os.environ.get("BERTH_PUBLIC_URL", "").rstrip("/")
TLS = PUBLIC_URL.startswith("https://")
_public_host = urlsplit(PUBLIC_URL).hostname

# Only names somebody chose: a stranger's DNS name that points here (rebinding) is refused.
ALLOWED_HOSTS = ["localhost", ".localhost", "127.0.0.1", "[::1]", *place.words("BERTH_HOSTS")]
if _public_host:
    ALLOWED_HOSTS.append(_public_host)
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL else []

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "sandboxes",
    "workspaces",
]

MIDDLEWARE = [
    "workspaces.config.headers.SafeHeaders",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "workspaces.api.auditing.Audited",
]

ROOT_URLCONF = "workspaces.config.urls"
ASGI_APPLICATION = "workspaces.config.asgi.application"
APPEND_SLASH = False
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "DIRS": [TREE / "templates"],
    "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]

DATABASES = {"default": place.database(BERTH_DATA)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "workspaces.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/sign-in"

# Cookies: host-only (no Domain), unreadable for scripts, and under TLS with the prefix that browsers enforce.
_prefix = "__Host-" if TLS else ""
SESSION_COOKIE_NAME = f"{_prefix}berth_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = TLS
SESSION_COOKIE_AGE = 14 * 24 * 3600
CSRF_COOKIE_NAME = f"{_prefix}berth_csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = TLS
CSRF_FAILURE_VIEW = "workspaces.api.fallback.csrf_failed"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
if TLS:
    # The gateway is the only way in and sets this header itself.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 30 * 24 * 3600

DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"

STATIC_URL = "/static/"
STATIC_ROOT = BERTH_DATA / "static"
FRONTEND_DIST = TREE / "frontend" / "dist"
STATICFILES_DIRS = [FRONTEND_DIST] if FRONTEND_DIST.is_dir() else []
# `./berth up` collects; without that, files are found where they lie in the tree.
WHITENOISE_USE_FINDERS = not STATIC_ROOT.is_dir()
# Vite puts a hash of the content into the names below assets/.
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/assets/"

REDIS_URL = place.redis_url(BERTH_DATA)
CHANNEL_LAYERS: dict[str, Any] = {"default": {
    "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
    "CONFIG": {"hosts": [REDIS_URL], "prefix": "berth"},
}}

CELERY_BROKER_URL = place.broker_url(REDIS_URL)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "workspaces.api.auth.BearerAuthentication",
        "workspaces.api.auth.StrictSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["workspaces.api.auth.NeedsScope"],
    "DEFAULT_PARSER_CLASSES": ["workspaces.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["workspaces.api.rendering.BerthJSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "workspaces.api.rendering.OneLanguage",
    "DEFAULT_SCHEMA_CLASS": "workspaces.api.schema.BerthSchema",
    "EXCEPTION_HANDLER": "workspaces.api.problems.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "UPLOADED_FILES_USE_URL": False,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth",
    "VERSION": "1",
    "DESCRIPTION": openapi_words.DESCRIPTION,
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {"RoleEnum": "workspaces.api.serializers_people.ROLES",
                            "GlassRoleEnum": "workspaces.api.serializers_people.GLASS_ROLES",
                            "ApprovalStateEnum": "workspaces.api.serializers_people.APPROVAL_STATES",
                            "ApprovalKindEnum": "workspaces.api.serializers_people.APPROVAL_KINDS",
                            "WorkspaceStateEnum": "workspaces.api.serializers.STATES",
                            "CheckpointStateEnum": "workspaces.api.serializers.CHECKPOINT_STATES"},
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "workspaces.api.schema.merge_gateway",
    ],
}

# Defaults of policy.py. A person may hold this much at once.
QUOTA_WORKSPACES = place.whole("BERTH_QUOTA_WORKSPACES", 32)
QUOTA_CPUS = place.whole("BERTH_QUOTA_CPUS", 32)
QUOTA_MEMORY_MIB = place.whole("BERTH_QUOTA_MEMORY_MIB", 32 * 1024)
QUOTA_RUNNING = place.whole("BERTH_QUOTA_RUNNING", 32)
QUOTA_DISK_GIB = place.whole("BERTH_QUOTA_DISK_GIB", 2000)
QUOTA_CHECKPOINTS = place.whole("BERTH_QUOTA_CHECKPOINTS", 1000)
# Before a program's step that follows so much quiet, at most one each so often, the last so many kept.
AUTO_CHECKPOINTS = bool(place.whole("BERTH_AUTO_CHECKPOINTS", 1))
AUTO_CHECKPOINT_QUIET_S = place.whole("BERTH_AUTO_CHECKPOINT_QUIET_S", 30)
AUTO_CHECKPOINT_EVERY_S = place.whole("BERTH_AUTO_CHECKPOINT_EVERY_S", 120)
AUTO_CHECKPOINTS_KEPT = place.whole("BERTH_AUTO_CHECKPOINTS_KEPT", 10)
SAFETY_CHECKPOINTS_KEPT = place.whole("BERTH_SAFETY_CHECKPOINTS_KEPT", 10)
# Notices go out by e-mail where a server is named; without one the events alone tell.
EMAIL_HOST = os.environ.get("BERTH_SMTP_HOST", "")
EMAIL_PORT = place.whole("BERTH_SMTP_PORT", 587)
EMAIL_HOST_USER = os.environ.get("BERTH_SMTP_USER", "")
EMAIL_HOST_PASSWORD = os.environ.get("BERTH_SMTP_PASSWORD", "")
EMAIL_USE_TLS = bool(place.whole("BERTH_SMTP_TLS", 1))
EMAIL_TIMEOUT = 5
DEFAULT_FROM_EMAIL = os.environ.get("BERTH_MAIL_FROM", "berth@localhost")
TRASH_S = place.whole("BERTH_TRASH_S", 7 * 24 * 3600)
PREVIEW_DOMAIN = os.environ.get("BERTH_PREVIEW_DOMAIN", "preview.localhost")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"no_query": {"()": "workspaces.config.logs.WithoutQuery"}},
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["no_query"]}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("BERTH_LOG_LEVEL", "INFO")},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "django.channels.server": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
    },
}
