"""Facts are values: nobody changes one that was recorded."""

from dray.manager.facts import Fact


def test_no_fact_can_be_changed_once_it_was_made():
    facts = Fact.__subclasses__()
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
    for cls in Fact.__subclasses__():
        defaults = cls.__struct_defaults__
        fields = cls.__struct_fields__[-len(defaults) :] if defaults else ()
        for field, default in zip(fields, defaults, strict=True):
            made = getattr(default, "factory", None)
            value = made() if made else default
            if value:
                found[cls.__name__, field] = value
    assert found == NOT_EMPTY
