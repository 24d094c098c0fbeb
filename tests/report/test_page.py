"""The page in a real browser."""

import base64

import chromium
import pytest
from made_runs import write_run

from cvpo.report import page as page_module
from cvpo.report import write_report

pytestmark = pytest.mark.skipif(
    chromium.EXECUTABLE is None, reason="no Chromium: apt-get install chromium, and the page is tested in it"
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw==")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser that has opened a report on four runs."""
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
    with chromium.Chromium(directory / "profile") as browser:
        browser.open(report)
        yield browser


def column(browser, number):
    """The texts in a column of the summary table, from above."""
    return browser.evaluate(
        f"[...document.querySelectorAll('#summary tbody tr')].map(row => row.cells[{number}].textContent)"
    )


def click_heading(browser, title):
    browser.evaluate(
        f"[...document.querySelectorAll('#summary th button')].find(button => button.textContent === {title!r}).click()"
    )


def test_pictures_are_shown(browser):
    sizes = browser.evaluate(
        "[...document.querySelectorAll('figure img')].map(image => [image.complete, image.naturalWidth, image.width])"
    )
    assert len(sizes) == 6
    assert all(complete and natural > 300 and shown > 300 for complete, natural, shown in sizes)


def test_the_table_sorts_by_numbers_and_by_words(browser):
    click_heading(browser, "Reward")
    assert column(browser, 5) == ["2", "2", "3", "20", "100"]  # as words, "100" would come first
    click_heading(browser, "Reward")
    assert column(browser, 5) == ["100", "20", "3", "2", "2"]
    click_heading(browser, "Method")
    assert column(browser, 1) == ["CVPO", "CVPO", "CVPO", "SAC-Lag", "TRPO"]
    headings = browser.evaluate("[...document.querySelectorAll('th[aria-sort]')].map(head => head.textContent)")
    assert headings == ["Method"]


def test_infinite_and_missing_values_sort_last(browser):
    click_heading(browser, "Eval reward")
    assert column(browser, 9) == ["5", "–", "–", "–", "–"]
    click_heading(browser, "Eval reward")
    assert column(browser, 9) == ["5", "–", "–", "–", "–"]
    click_heading(browser, "Cost to 80%")
    assert column(browser, 13)[-1] == "∞"


def test_costs_over_the_limit_are_marked(browser):
    marked = browser.evaluate(
        "[...document.querySelectorAll('#summary tbody tr')].filter(row => row.cells[6].classList.contains('over'))"
        ".map(row => row.cells[1].textContent)"
    )
    assert marked == ["TRPO"]


def open_run(browser, number):
    """Open a run and wait for its contents."""
    return browser.evaluate(
        "new Promise(done => {"
        f"  const run = document.querySelectorAll('details.run')[{number}];"
        "  new MutationObserver(() => setTimeout(() => done(run.dataset.run))).observe(run, {childList: true});"
        "  run.firstElementChild.click();"
        "})"
    )


def test_a_run_opens_with_its_curves_config_and_films(browser):
    texts = browser.evaluate("[...document.querySelectorAll('details.run')].map(run => run.textContent)")
    assert len(texts) == 4 and "CVPO · seed 0" in texts[0] and "cost 8 (limit 10)" in texts[0]
    assert "3k of 6k steps" in texts[1]
    open_run(browser, 0)
    run = "document.querySelectorAll('details.run')[0]"
    titles = browser.evaluate(f"[...{run}.querySelectorAll('svg .title')].map(text => text.textContent)")
    assert titles == ["reward", "cost"]
    # The curve must pass through its data: the reward's last point, the largest, is as high as its tick.
    points = browser.evaluate(
        f"(() => {{ const path = {run}.querySelector('svg path.train');"
        " const end = path.getPointAtLength(path.getTotalLength());"
        f" const tick = [...{run}.querySelector('svg').querySelectorAll('text')].find(t => t.textContent === '100');"
        " return [end.x, end.y, Number(tick.getAttribute('y')) - 4, path.getAttribute('d').split('L').length]; })()"
    )
    assert points[1] == pytest.approx(points[2], abs=0.2) and points[3] == 3
    assert browser.evaluate(f"{run}.querySelectorAll('line.limit').length") == 1
    assert browser.evaluate(f"JSON.parse({run}.querySelector('pre').textContent).config.kl_constraint") is True
    films = browser.evaluate(
        f"[...{run}.querySelectorAll('.films > *')].map(film => [film.tagName, film.src.slice(-30)])"
    )
    assert films[0][0] == "IMG" and films[1] == ["VIDEO", "s/cvpo/videos/large%20film.mp4"]
    assert browser.evaluate(f"{run}.querySelector('.films img').decode().then(() => true)") is True


def test_a_run_with_two_constraints_has_three_curves(browser):
    open_run(browser, 3)
    titles = browser.evaluate(
        "[...document.querySelectorAll('details.run')[3].querySelectorAll('svg .title')].map(text => text.textContent)"
    )
    assert titles == ["reward", "cost 1", "cost 2"]


def test_an_unconstrained_run_has_no_limit(browser):
    open_run(browser, 2)
    assert browser.evaluate("document.querySelectorAll('details.run')[2].querySelectorAll('line.limit').length") == 0


def test_runs_can_be_filtered(browser):
    browser.evaluate(
        "(() => { const box = document.getElementById('filter'); box.value = 'point-goal sac';"
        " box.dispatchEvent(new Event('input')); })()"
    )
    shown = browser.evaluate("[...document.querySelectorAll('details.run')].map(run => run.offsetHeight > 0)")
    assert shown == [False, True, False, False]


def test_no_error_and_no_network(browser):
    # last: what all the tests above have provoked. The large film is no film at all, which its player may say.
    errors = [error for error in browser.errors if "film.mp4" not in error]
    assert errors == []
    assert {url.split(":")[0] for url in browser.requests} <= {"file", "data"}
