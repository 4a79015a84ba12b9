"""Maps as SVG."""

from xml.etree import ElementTree

from pomp.karel.vectors import draw_rows

ROWS = ("#####", "#>m3#", "#.+w#", "#####")


def test_a_map_is_drawn_cell_by_cell():
    drawn = draw_rows(ROWS, "a <map> & more")
    root = ElementTree.fromstring(drawn)
    kinds = [part.get("class", "") for part in root.iter()]
    assert kinds.count("pomp-wall") == 14
    assert kinds.count("pomp-marker") == 4
    assert kinds.count("pomp-count") == 2
    assert kinds.count("pomp-agent") == 2
    assert "<title>a &lt;map&gt; &amp; more</title>" in drawn
    assert (root.get("width"), root.get("height")) == ("160", "128")


def test_an_agent_points_where_it_faces():
    turns = [draw_rows(("###", f"#{sign}#", "###"), "")[:-6] for sign in "^>v<"]
    assert [f"rotate({90 * number})" in one for number, one in enumerate(turns)] == [True] * 4
