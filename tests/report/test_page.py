"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import base64
import json
import shutil

import pytest
from made_runs import write_run
from playwright.sync_api import sync_playwright

from cvpo.report import page as page_module
from cvpo.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# As root in a container there is no sandbox; the rest keeps it from looking for updates and the like.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install chromium, and the page is tested in it"
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw==")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report on four runs, opened. `said` collects its messages and errors, `asked_for` the addresses it loads."""
    directory = tmp_path_factory.mktemp("page")
    runs = directory / "runs"
    write_run(
        runs / "cvpo", [0.0, 9.0, 100.0], [30.0, 12.0, 8.0], extra=lambda epoch: {"eval/reward": 5.0, "eval/cost": 1.0}
    )
    write_run(runs / "sac", [0.0, 3.0, 20.0], [30.0, 12.0, 9.5], algorithm="sac-lag", planned_epochs=6)
    write_run(runs / "trpo", [0.0, 4.0, 3.0], [60.0, 60.0, 60.0], algorithm="trpo", limits=("Infinity",))
    write_run(runs / "two", [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], limits=(5.0, 6.0), env="Two costs")
    films = runs / "cvpo" / "videos"
    films.mkdir()
    (films / "first.gif").write_bytes(GIF)
    (films / "large film.mp4").write_bytes(b"\0" * (page_module.FILM_BYTES + 1))
    report = write_report([runs], directory / "report")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.said, page.asked_for = [], []
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("console", lambda message: page.said.append(f"{message.type}: {message.text} ({message.location})"))
        page.on("request", lambda request: page.asked_for.append(request.url))
        page.goto(report.resolve().as_uri())
        yield page
        browser.close()


def column(page, number):
    """The texts in a column of the summary table, from above."""
    return page.locator(f"#summary tbody tr > :nth-child({number + 1})").all_text_contents()


def click_heading(page, title):
    page.locator("#summary th").get_by_text(title, exact=True).click()


def opened(page, number):
    """A run, opened, with its contents."""
    run = page.locator("details.run").nth(number)
    if run.get_attribute("open") is None:
        run.locator("summary").click()
    run.locator("svg").first.wait_for()
    return run


def test_pictures_are_shown(page):
    sizes = page.locator("figure img").evaluate_all(
        "images => images.map(image => [image.complete, image.naturalWidth, image.width])"
    )
    assert len(sizes) == 6
    assert all(complete and natural > 300 and shown > 300 for complete, natural, shown in sizes)


def test_the_table_sorts_by_numbers_and_by_words(page):
    click_heading(page, "Reward")
    assert column(page, 5) == ["2", "2", "3", "20", "100"]  # as words, "100" would come first
    click_heading(page, "Reward")
    assert column(page, 5) == ["100", "20", "3", "2", "2"]
    click_heading(page, "Method")
    assert column(page, 1) == ["CVPO", "CVPO", "CVPO", "SAC-Lag", "TRPO"]
    assert page.locator("th[aria-sort]").all_text_contents() == ["Method"]


def test_infinite_and_missing_values_sort_last(page):
    click_heading(page, "Eval reward")
    assert column(page, 9) == ["5", "–", "–", "–", "–"]
    click_heading(page, "Eval reward")
    assert column(page, 9) == ["5", "–", "–", "–", "–"]
    click_heading(page, "Cost to 80%")
    assert column(page, 13)[-1] == "∞"


def test_costs_over_the_limit_are_marked(page):
    rows = page.locator("#summary tbody tr")
    marked = [row.locator("td, th").all_text_contents()[1] for row in rows.all() if row.locator(".over").count()]
    assert marked == ["TRPO"]


def test_a_run_opens_with_its_curves_config_and_films(page):
    texts = page.locator("details.run").all_text_contents()
    assert len(texts) == 4 and "CVPO · seed 0" in texts[0] and "cost 8 (limit 10)" in texts[0]
    assert "3k of 6k steps" in texts[1]
    run = opened(page, 0)
    assert run.locator("svg .title").all_text_contents() == ["reward", "cost"]
    # The curve must pass through its data: the reward's last point, the largest, is as high as its tick.
    tick = run.locator("svg").first.get_by_text("100", exact=True)
    end, points = run.locator("svg path.train").first.evaluate(
        "path => [path.getPointAtLength(path.getTotalLength()).y, path.getAttribute('d').split('L').length]"
    )
    assert end == pytest.approx(float(tick.get_attribute("y")) - 4, abs=0.2) and points == 3
    assert run.locator("line.limit").count() == 1
    assert json.loads(run.locator("pre").text_content())["config"]["kl_constraint"] is True
    film, large = run.locator(".films > *").all()
    assert film.evaluate("image => image.decode().then(() => image.tagName)") == "IMG"
    assert large.evaluate("film => [film.tagName, film.src.slice(-30)]") == ["VIDEO", "s/cvpo/videos/large%20film.mp4"]


def test_a_run_with_two_constraints_has_three_curves(page):
    assert opened(page, 3).locator("svg .title").all_text_contents() == ["reward", "cost 1", "cost 2"]


def test_an_unconstrained_run_has_no_limit(page):
    assert opened(page, 2).locator("line.limit").count() == 0


def test_runs_can_be_filtered(page):
    page.fill("#filter", "point-goal sac")
    assert [run.is_visible() for run in page.locator("details.run").all()] == [False, True, False, False]


def test_no_error_and_no_network(page):
    # last: what all the tests above have provoked. The large film is no film at all, which its player may say.
    assert [said for said in page.said if "film.mp4" not in said] == []
    assert {url.split(":")[0] for url in page.asked_for} <= {"file", "data"}
