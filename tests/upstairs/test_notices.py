"""Notices as letters: sent once, to those who have an address, over real SMTP; again after a server that was away."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from tests.upstairs.laid_down import DAY, HOUR, MINUTE, point, turns
from tests.upstairs.mailbox import Mailbox
from workspaces import notices
from workspaces.models import User, Workspace

pytestmark = pytest.mark.django_db


@pytest.fixture
def letters(settings: Any) -> Iterator[list[EmailMessage]]:
    """What a mail server on this machine took, sent as `BERTH_SMTP_HOST` would have it sent."""
    with Mailbox() as mailbox:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        yield mailbox.letters


def test_notices_are_mailed_once_to_those_who_have_an_address(asleep: Workspace, short: None, ann: User,
                                                              settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    ann.email = "ann@example.org"
    ann.save()
    start = timezone.now()
    now = turns(start, start + 100 * MINUTE)
    assert notices.mail(now) == 1 and notices.mail(now + HOUR) == 0
    letter = mail.outbox[0]
    assert letter.to == ["ann@example.org"] and asleep.pk in letter.body and "goes to the trash" in letter.body


def test_a_mail_that_fails_is_tried_again_and_without_a_server_none_is(asleep: Workspace, short: None, ann: User,
                                                                      settings: Any,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    start = timezone.now()
    assert notices.mail(start) == 0
    settings.EMAIL_HOST = "mail.example.org"
    User.objects.filter(pk=ann.pk).update(email="ann@example.org")
    now = turns(start, start + 100 * MINUTE)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no route")

    with monkeypatch.context() as patch:
        patch.setattr(notices, "send_mail", refuse)
        assert notices.mail(now) == 0
    assert notices.mail(now + HOUR) == 1 and len(mail.outbox) == 1


def test_the_letters_are_real_mail_and_name_checkpoints_too(asleep: Workspace, short: None, ann: User, settings: Any,
                                                            letters: list[EmailMessage]) -> None:
    """Over SMTP to a server on this machine; hostile names stay within their line."""
    User.objects.filter(pk=ann.pk).update(email="ann@example.org")
    Workspace.objects.filter(pk=asleep.pk).update(name="box\r\nBcc: all@example.org\r\n.\r\nQUIT")
    start = timezone.now()
    own = point(asleep, "manual", DAY, expires_at=start + 95 * MINUTE, name="before the \u00fcpgrade")
    now = turns(start, start + 93 * MINUTE)
    assert notices.mail(now) == 1 and notices.mail(now + HOUR) == 0
    [letter] = letters
    assert (letter["To"], letter["From"]) == ("ann@example.org", settings.DEFAULT_FROM_EMAIL)
    assert letter["Bcc"] is None
    lines = letter.get_content().splitlines()
    assert [line for line in lines if asleep.pk in line and "goes to the trash at" in line]
    assert [line for line in lines if own.pk in line and "before the \u00fcpgrade" in line and "is removed at" in line]
    assert "box Bcc: all@example.org . QUIT" in letter.get_content()


def test_a_mail_server_that_hangs_up_is_asked_again_and_nothing_is_told_twice(
        asleep: Workspace, short: None, ann: User, settings: Any, letters: list[EmailMessage]) -> None:
    User.objects.filter(pk=ann.pk).update(email="ann@example.org")
    start = timezone.now()
    now = turns(start, start + 93 * MINUTE)
    working = settings.EMAIL_PORT
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        settings.EMAIL_PORT = nobody.getsockname()[1]
        assert notices.mail(now) == 0
    settings.EMAIL_PORT = working
    assert notices.mail(now + MINUTE) == 1 and notices.mail(now + 2 * MINUTE) == 0 and len(letters) == 1
