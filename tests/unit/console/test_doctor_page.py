"""Each finding of the doctor has a remedy on the first page."""

from __future__ import annotations

import re

from dray.client.awaited import doctor
from dray.console.pages.doctor import remedies_of
from dray.model.finding import DoctorFinding

CODES = re.findall(r"^\| ([a-z-]+) \|", doctor.__doc__ or "", flags=re.MULTILINE)[1:]


def test_every_code_of_the_doctor_has_a_button():
    assert len(CODES) == 14
    for code in CODES:
        for queue in ("", "orders", "orders;poison"):
            assert remedies_of(DoctorFinding(code, queue, "it is so; do `this` now")), code


def test_a_delivery_that_hangs_is_shown():
    (shown,) = remedies_of(DoctorFinding("peer-silent", "dray://a:1/b", "a message waits"))
    assert shown.path == "/deliveries"


def test_a_delivery_that_waits_can_be_tried_again():
    first, *_ = remedies_of(DoctorFinding("peer-down", "dray://a:1/b", "a message waits"))
    assert ("act", "resume") in first.fields
