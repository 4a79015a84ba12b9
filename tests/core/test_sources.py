"""Objects of one's own are found by `module:NAME`, and say what they are found by."""

import sys

import pytest

from pomp.core import ConfigError, UntrustedModuleError
from pomp.core.sources import find_source, load_object, require_source


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module in the current folder, which nothing has imported."""
    (tmp_path / "mine.py").write_text("class Thing: pass\nTHING = Thing()\nNUMBER = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def test_what_is_found_tells_where_it_was_found(mine):
    found = load_object("mine:THING", "thing", object)
    assert find_source(found) == "mine:THING"
    import mine as module

    module.OTHER = module.Thing()
    assert find_source(module.OTHER) == "mine:OTHER"
    assert find_source(module.Thing()) is None


def test_a_module_that_is_not_allowed_is_not_run(mine):
    with pytest.raises(UntrustedModuleError, match="the thing 'mine:THING' is code in the module"):
        load_object("mine:THING", "thing", object, allow=["other"])
    assert "mine" not in sys.modules
    assert load_object("mine:NUMBER", "thing", int, allow=["mine"]) == 1


@pytest.mark.parametrize(
    ("source", "text", "says"),
    [
        ("mine", "", "a search method of your own is module:NAME, as in my_file:MY_SEARCH_METHOD"),
        ("absent:THING", "", "cannot load search method 'absent:THING': ModuleNotFoundError"),
        ("mine:ABSENT", "", "mine has no 'ABSENT'"),
        ("mine:THING", "THING = (1).absent", "AttributeError: 'int' object has no attribute"),
        ("mine:THING", "THING = 'text'", "'mine:THING' is a str, not a pomp int"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(mine, source, text, says):
    (mine / "mine.py").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_object(source, "search method", int)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_has_no_home_is_refused_where_one_is_needed():
    with pytest.raises(ConfigError, match="the thing it is no name at the top of an imported"):
        require_source(object(), "thing", "it")
