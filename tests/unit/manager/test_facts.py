"""Facts are values: nobody changes one that was recorded."""

from dray.manager.facts import Fact


def test_no_fact_can_be_changed_once_it_was_made():
    facts = Fact.__subclasses__()
    assert facts
    assert not [cls.__name__ for cls in facts if not cls.__struct_config__.frozen]
