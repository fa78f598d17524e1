"""Which commands meet which patterns: written plainly, in a chain, behind sudo, within `bash -c`."""

from __future__ import annotations

import time
from typing import Any

import pytest

from workspaces import approval_rule

RULES = {"exec": ["rm -rf*", "git push*"]}


@pytest.mark.parametrize("command", [
    "rm -rf /tmp/x", "  rm   -rf  /", "cd /tmp && rm -rf x", "true; rm -rf x", "true | rm -rf x", "a\nrm -rf x",
    "sudo rm -rf x", "sudo -E rm -rf x", "A=1 B=2 rm -rf x", "(rm -rf x)", "git push origin main",
    ["rm", "-rf", "x"], ["bash", "-c", "echo hi; git push"], ["/bin/sh", "-lc", "rm -rf x"],
    ["sudo", "rm", "-rf", "/"]])
def test_a_command_that_meets_a_pattern_waits(command: Any) -> None:
    assert approval_rule.met_by(RULES, command) in RULES["exec"]


@pytest.mark.parametrize("command", [
    "ls", "rm x", "echo rm", "git status", ["git", "pull"], "", [], None, 7, ["rm", 1], {"rm": "-rf"}])
def test_a_command_that_meets_none_does_not(command: Any) -> None:
    assert approval_rule.met_by(RULES, command) is None


def test_a_star_holds_everything_and_no_rule_holds_nothing() -> None:
    assert approval_rule.met_by({"exec": ["*"]}, "ls") == "*"
    assert approval_rule.met_by({"exec": ["*"]}, "") == "*"
    assert approval_rule.met_by({}, "rm -rf /") is None


def test_a_hostile_command_and_a_hostile_pattern_do_not_keep_others_waiting() -> None:
    began = time.process_time()
    approval_rule.met_by({"exec": ["*a" * 60 + "b"] * 5}, "a" * approval_rule.LONGEST_COMMAND)
    approval_rule.met_by({"exec": ["rm*"] * 100}, "x;" * (approval_rule.LONGEST_COMMAND // 2))
    approval_rule.met_by(RULES, "sudo " * (approval_rule.LONGEST_COMMAND // 5))
    assert time.process_time() - began < 30, "not exponential: that would be years"
