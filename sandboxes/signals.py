"""Facts walking up: what downstairs says without knowing who listens. Sent by plans/runner within its transaction.

Listeners (upstairs' reconcile) write their part in the same transaction or fail it whole.
"""

from django.dispatch import Signal

#: A body's phase, stage or trouble was written. Arguments: machine_id.
body_changed = Signal()
#: A plan reached its goal. Arguments: machine_id, generation, plan, subject (its key), result (what hostd said).
plan_done = Signal()
#: A plan gave up, its undo done. Arguments: machine_id, generation, plan, subject, code, detail.
plan_failed = Signal()
#: A place between two effects, where a worker may die and nothing may be lost. Arguments: machine_id, name.
boundary = Signal()
