"""Registration of parsers for user classes."""

import pytest

from softipu.errors import Error
from softipu.poptorch.inputs.custom_parser import ICustomArgParser, find_parser, registerCustomArgParser


class Parent:
    pass


class Child(Parent):
    pass


@pytest.fixture
def parser():
    parser = ICustomArgParser()
    registerCustomArgParser(Parent, parser)
    yield parser
    registerCustomArgParser(Parent, None)


def test_parser_serves_subclasses(parser):
    assert find_parser(Parent) is parser and find_parser(Child) is parser


def test_nearest_class_wins(parser):
    own = ICustomArgParser()
    registerCustomArgParser(Child, own)
    try:
        assert find_parser(Child) is own and find_parser(Parent) is parser
    finally:
        registerCustomArgParser(Child, None)
    assert find_parser(Child) is parser


def test_none_unregisters(parser):
    registerCustomArgParser(Parent, None)
    assert find_parser(Parent) is None


def test_something_else_than_a_parser_is_an_error():
    with pytest.raises(Error, match="needs an instance of a subclass of poptorch.ICustomArgParser, or None, given <class"):
        registerCustomArgParser(Parent, ICustomArgParser)


def test_incomplete_parser_names_what_is_missing():
    class Empty(ICustomArgParser):
        pass

    with pytest.raises(NotImplementedError, match="Empty must define yieldTensors"):
        Empty().yieldTensors(None)
    with pytest.raises(NotImplementedError, match="Empty must define reconstruct"):
        Empty().reconstruct(None, iter(()))
