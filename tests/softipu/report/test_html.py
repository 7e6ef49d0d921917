"""The page: self-contained, well-formed, with the figures of the report in the widths of its boxes."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from softipu.report.cost_report import Phase
from softipu.report.html.drawing import Drawing, ticks
from softipu.report.html.icicle import by_family, by_module, icicle, tree
from softipu.report.html.liveness import liveness
from softipu.report.html.memory_bars import css_name, memory_bars
from softipu.report.html.pipeline import pipeline
from softipu.report.html.shares import phase_shares, share_bar
from softipu.report.html.tiles import tile_histogram
from softipu.report.plan import Plan
from tests.softipu.report.sample_report import cost, fitting, overflowing

NS = "{http://www.w3.org/2000/svg}"


def boxes(markup, css=None):
    root = ElementTree.fromstring(markup.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    return [r for r in root.iter(NS + "rect") if css is None or css in r.get("class").split()]


def tips(markup, css=None):
    return [box.find(NS + "title").text for box in boxes(markup, css) if box.find(NS + "title") is not None]


class Page(HTMLParser):
    """Open elements and the attributes that load something."""

    def __init__(self, text):
        super().__init__()
        self.open, self.loads, self.classes = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.loads += [attrs[name] for name in ("src", "href") if name in attrs]
        self.classes.update((attrs.get("class") or "").split())
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.classes.update((dict(attrs).get("class") or "").split())

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("report", [fitting(), overflowing()], ids=["fits", "overflows"])
def test_the_page_is_one_well_formed_file(report):
    page = Page(report.html())
    assert page.open == [] and page.loads == []
    assert "url(" not in report.html() and "@import" not in report.html()


@pytest.mark.parametrize("report", [fitting(), overflowing()], ids=["fits", "overflows"])
def test_every_colour_has_a_style(report):
    text = report.html()
    styled = set(re.findall(r"\.([a-z][\w-]*)", text[text.index("<style>") : text.index("</style>")]))
    colours = {c for c in Page(text).classes if re.match(r"[acdfmpsv]-", c)}
    assert colours and colours <= styled


def test_names_of_models_cannot_write_markup():
    text = replace(fitting(), model="<script>alert(1)</script>").html()
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text


def test_module_names_cannot_leave_the_liveness_attribute():
    report = fitting()
    memory = report.cost.memory[0]
    odd = replace(memory, liveness=(replace(memory.liveness[0], module='a"><b>'),))
    page = Page(replace(report, cost=replace(report.cost, memory=(odd,))).html())
    assert page.open == [] and "b" not in page.open


def test_a_backward_pass_cut_up_by_recomputation_is_named_once():
    memory = cost().memory[0]
    phases = ["forward"] * 80 + (["backward"] * 79 + ["recompute"]) * 2
    points = tuple(replace(point, phase=phase) for point, phase in zip(memory.liveness, phases))
    words = re.findall(r">(forward|backward|recompute)</text>", liveness(replace(memory, liveness=points)))
    assert words == ["forward", "backward"]


def test_the_name_of_the_limit_stands_below_those_of_the_phases():
    drawn = re.sub(r"^.*?(<svg.*</svg>).*$", r"\1", liveness(cost().memory[0]), flags=re.DOTALL)
    root = ElementTree.fromstring(drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    heights = {text.text: float(text.get("y")) for text in root.iter(NS + "text")}
    assert heights["897 MiB"] - heights["forward"] >= 11  # pixels of a letter


def test_one_pipeline_cycle_is_said_in_the_singular():
    report = fitting()
    one = replace(report, cost=replace(report.cost, time=replace(report.cost.time, n_cycles=1)))
    assert "; 1 pipeline cycle of" in one.text()


def test_bars_are_as_wide_as_the_memory_that_they_stand_for():
    report = cost()
    markup = memory_bars(report)
    for memory in report.memory:
        own = [b for b in boxes(markup) if b.find(NS + "title") is not None and b.find(NS + "title").text.startswith(f"IPU {memory.ipu}: ")]
        widths = {b.get("class"): float(b.get("width")) for b in own}
        scale = sum(widths.values()) / memory.total.total
        for category, estimate in memory.by_category.items():
            assert widths.get(css_name(category), 0.0) == pytest.approx(estimate.total * scale, abs=0.02)


def test_an_ipu_that_overflows_is_marked():
    assert "\u2716" in memory_bars(overflowing().cost)
    assert "\u2716" not in memory_bars(fitting().cost)


def test_tiles_beyond_their_memory_have_another_colour():
    bands = boxes(tile_histogram(overflowing().cost.memory[0]), "over")
    assert len(bands) == len(overflowing().cost.memory[0].tiles)
    assert boxes(tile_histogram(fitting().cost.memory[3]), "over") == []
    assert tips(tile_histogram(fitting().cost.memory[3]), "tile")[0].startswith("6 tiles\n")


def test_the_pipeline_shows_ramps_and_says_what_it_leaves_out():
    markup = pipeline(cost())
    assert "52 more steady cycles" in " ".join(tips(markup))
    forward = [t for t in tips(markup, "d-forward") if t.startswith("IPU 3")]
    assert re.search(r"forward of micro-batch 0\n.*\n.*cycle 3, ramp up", forward[0])
    assert re.search(r"forward of micro-batch 63\n.*\n.*cycle 66, ramp down", forward[-1])


def test_inference_and_one_ipu_have_a_pipeline_too():
    report = cost()
    alone = replace(report.stages[0], backward={}, recompute_seconds=0.0)
    single = replace(report, plan=Plan(), stages=(alone,), memory=report.memory[:1], training=False)
    assert tips(pipeline(single), "d-forward")[0].startswith("IPU 0: forward of micro-batch 0")
    assert tips(pipeline(single), "d-backward") == []
    Page(replace(fitting(), cost=single, search=None).html())


@pytest.mark.parametrize("path_of, family_at", [(by_module, -2), (by_family, 0)])
def test_boxes_of_the_icicle_fill_the_box_above_them(path_of, family_at):
    report = cost()
    markup = icicle(report, tree(report.modules, path_of, family_at=family_at), "time")
    whole = [float(b.get("data-w")) for b in boxes(markup) if float(b.get("y")) == 25]
    assert sum(whole) == pytest.approx(1.0, abs=1e-4)
    seconds = sum(row.seconds.total for row in report.modules)
    assert tips(markup)[0].startswith(f"one micro-batch on all IPUs\n{seconds * 1e3:.1f} ms, 100.0 %")


def test_a_module_called_like_an_op_family_stays_apart():
    rows = tuple(replace(row, module="matmul") for row in cost().modules[:8])
    root = tree(rows, by_module, family_at=-2)
    assert list(root.parts) == ["matmul"] and root.parts["matmul"].family == ""


def test_phases_share_the_bar():
    report = cost()
    shares = phase_shares(report)
    assert [s.name for s in shares] == [p.value for p in Phase if p in report.time.by_phase]
    widths = [float(b.get("width")) + 1 for b in boxes(share_bar(shares, "time"))]
    assert sum(widths) == pytest.approx(1080, abs=0.1)


def test_the_front_marks_the_best_plan():
    text = fitting().html()
    assert text.count('class="dot s-2 best"') == 1
    assert "No plan" not in text


@pytest.mark.parametrize("largest, expected", [(897.0, [0, 200, 400, 600, 800]), (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0.0, [0])])
def test_ticks_are_round(largest, expected):
    assert ticks(largest) == pytest.approx(expected)


def test_drawings_leave_out_what_has_no_area():
    picture = Drawing(10, 10, "x")
    picture.rect(0, 0, 0, 5, "a")
    assert "rect" not in picture.markup()
