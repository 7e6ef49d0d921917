"""NameScope and Attribute nest."""

import pytest

from softipu.poptorch.ops.scopes import Attribute, NameScope, current_attributes, current_name_scope


def test_names_nest():
    with NameScope("outer"), NameScope("inner"):
        assert current_name_scope() == "outer/inner"
    assert current_name_scope() == ""


def test_name_must_be_a_string():
    with pytest.raises(AssertionError, match="Parameter to NameScope must be a string, given 3"):
        NameScope(3)


def test_attributes_nest_and_inner_ones_go_first():
    with Attribute(__outline={"layer": "embedding", "n": "1"}):
        with Attribute(__outline={"layer": "other"}, more={"a": "b"}):
            assert current_attributes() == {"__outline": {"layer": "other", "n": "1"}, "more": {"a": "b"}}
        assert current_attributes() == {"__outline": {"layer": "embedding", "n": "1"}}
    assert current_attributes() == {}


def test_attribute_needs_dicts():
    with pytest.raises(AssertionError, match="Attribute __outline needs a dict of names and values, given 'x'"):
        Attribute(__outline="x")


def test_scopes_end_when_the_body_raises():
    with pytest.raises(KeyError):
        with NameScope("a"), Attribute(b={}):
            raise KeyError
    assert current_name_scope() == "" and current_attributes() == {}
