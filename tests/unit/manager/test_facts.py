"""Facts are values: nobody changes one that was recorded."""

import msgspec

from dray.manager.facts import Fact


def kinds_of(fact):
    for each in fact.__subclasses__():
        yield each
        yield from kinds_of(each)


def test_no_fact_can_be_changed_once_it_was_made():
    facts = list(kinds_of(Fact))
    assert facts
    assert not [cls.__name__ for cls in facts if not cls.__struct_config__.frozen]


NOT_EMPTY = {
    ("Committed", "heard"): (0, 0),
    ("QueueCreated", "first_position"): 1,
    ("StreamEnded", "ended"): True,
    ("StreamRenewed", "judged"): (0, 0, 0),
    ("TokenSet", "times_us"): (0, 0),
}
"""What a field of a fact means that was left out, if it is not nothing: no, zero, empty."""


def test_a_field_that_a_fact_leaves_out_says_nothing_but_for_a_few():
    found = {}
    for cls in kinds_of(Fact):
        defaults = cls.__struct_defaults__
        fields = cls.__struct_fields__[-len(defaults) :] if defaults else ()
        for field, default in zip(fields, defaults, strict=True):
            made = getattr(default, "factory", None)
            value = made() if made else default
            if value:
                found[cls.__name__, field] = value
    assert found == NOT_EMPTY


TAGS = """
    1 ManagerNamed, 2 NumbersLeased, 3 QueueCreated, 4 QueueDeleted, 5 Committed, 6 Accepted,
    7 Delivered, 8 QueuePaused, 9 QuotaSet, 10 StreamRenewed, 11 Restored, 12 StreamEnded,
    13 EndForgotten, 14 IncarnationBegan, 16 SourceMet, 17 PeerMet, 18 PeerForgotten,
    19 StreamDiverged, 20 QueueOptionsSet, 21 QueueFilesKept, 22 DivergenceResolved, 23 SourceBound,
    30 PutBack, 31 ConfirmationsTaken, 32 Prepared, 33 PreparedAborted, 34 PurgePending,
    35 LargeMoved, 36 ConfirmationsAbove, 40 Relocated, 50 UploadBegun, 51 UploadMarked,
    52 UploadDropped, 60 PositionsReserved, 70 BatchStaged, 71 BatchCommitted, 80 TokenSet
"""
"""Logs are full of them, so none of them ever changes; another fact takes another number."""


def test_the_number_of_a_fact_never_changes_and_it_is_logged_as_an_array():
    configs = {cls.__name__: cls.__struct_config__ for cls in kinds_of(Fact)}
    numbered = dict(reversed(each.split()) for each in TAGS.replace("\n", " ").split(","))
    assert {name: str(config.tag) for name, config in configs.items()} == numbered
    values = [each for each in kinds_of(msgspec.Struct) if each.__module__ == Fact.__module__]
    assert Fact in values
    assert all(each.__struct_config__.array_like for each in values)
