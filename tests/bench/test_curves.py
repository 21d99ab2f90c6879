"""Pictures of how something went."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from lingua_scheduler.bench import curves, report
from lingua_scheduler.bench.figures import Curve, Run, Samples

SVG = "{http://www.w3.org/2000/svg}"


def run(*lines: Curve) -> Run:
    return Run(
        started_at="2026-01-01T00:00:00Z",
        took_s=1.0,
        slowdown=1.0,
        machine={},
        plan={},
        figures=[],
        notes=[],
        curves=list(lines),
    )


def test_lines_with_one_title_share_a_picture() -> None:
    lines = [
        Curve(title=t, label=x, points=[(0, 1), (1, 2)]) for t, x in (("A, ms", "x"), ("A, ms", "y"), ("B & C", "z"))
    ]
    pictures = curves.charts(run(*lines))
    assert list(pictures) == ["curve-a.svg", "curve-b-c.svg"]
    drawn = {name: ElementTree.fromstring(svg) for name, svg in pictures.items()}
    assert [len(svg.findall(f"{SVG}polyline")) for svg in drawn.values()] == [2, 1]


def test_the_highest_point_is_at_the_top_and_zero_at_the_bottom() -> None:
    svg = ElementTree.fromstring(curves.chart("t", [Curve(title="t", label="l", points=[(0, 0), (5, 50), (10, 100)])]))
    line = svg.find(f"{SVG}polyline")
    assert line is not None
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in line.attrib["points"].split())
    assert (x1 - x0, y0 - y1) == pytest.approx((x2 - x1, y1 - y2))
    assert y2 == curves.TOP_PX
    assert x2 == curves.WIDTH_PX - curves.RIGHT_PX


@pytest.mark.parametrize(
    ("highest", "expected"), [(0, (1, 1)), (69, (80, 20)), (5512, (6000, 2000)), (1, (1, 0.2)), (19.5, (20, 5))]
)
def test_numbers_on_an_axis_are_round(highest: float, expected: tuple[float, float]) -> None:
    assert curves.scale(highest) == pytest.approx(expected)


def test_a_line_that_is_measured_again_begins_anew() -> None:
    samples = Samples()
    for x, y in ((0, 1), (1, 2), (0, 3), (1, 4)):
        samples.point("t", "l", x, y)
    assert samples.curves() == [Curve(title="t", label="l", points=[(0, 3), (1, 4)])]


def test_pictures_of_the_run_before_are_gone_and_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "mine.svg").write_text("")
    report.write(run(Curve(title="First", label="l", points=[(0, 1)])), tmp_path)
    page = report.write(run(Curve(title="Second", label="l", points=[(0, 1)])), tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["curve-second.svg", "mine.svg"]
    assert "(curve-second.svg)" in page.read_text("utf-8")
