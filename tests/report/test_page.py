"""The page in a real browser."""

import base64
import json

import pytest
from browser import needs_browser, open_page, picture
from made_runs import write_run

from cvpo.report import films, write_report

pytestmark = needs_browser
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw==")
ODD = "<img src=x onerror=document.title='taken'>"


def logged(epoch):
    return {"eval/reward": 5.0, "eval/cost": 1.0, "estep/kl": 0.1 * epoch, "estep/feasible": 1.0}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Several seeds, over the limit, without one, two costs with names, unfinished, failed, one epoch, an odd name."""
    directory = tmp_path_factory.mktemp("page")
    runs = directory / "runs"
    for seed, last in enumerate([90.0, 100.0, 110.0]):
        write_run(
            runs / f"cvpo-{seed}",
            [0.0, 9.0, last],
            [30.0, 12.0, 7.0 + seed],
            seed=seed,
            extra=logged,
            changed={"batch_size": 256},
        )
    write_run(runs / "sac", [0.0, 3.0, 20.0], [30.0, 12.0, 9.5], algorithm="sac-lag", planned_epochs=6)
    write_run(runs / "trpo", [0.0, 4.0, 300.0], [60.0, 60.0, 60.0], algorithm="trpo", limits=("Infinity",))
    two = {"limits": (5.0, 6.0), "env": "Two costs", "config": {"cost_keys": ["speed", "crash"]}}
    write_run(runs / "two", [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], **two)
    failed = write_run(runs / "failed", [1.0], [3.0], env=ODD, planned_epochs=9)
    (failed / "error.txt").write_text(f"ValueError: {ODD}")
    write_run(runs / "begun", [], [])
    (runs / "cvpo-0" / "videos").mkdir()
    (runs / "cvpo-0" / "videos" / "first.gif").write_bytes(GIF)
    (runs / "cvpo-0" / "inspect").mkdir()
    (runs / "cvpo-0" / "inspect" / "worst_1.mp4").write_bytes(b"\0" * (films.FILM_BYTES + 1))
    return write_report([runs], directory / "report", formats=["png"]).resolve().as_uri()


@pytest.fixture(scope="module")
def page(browser, report):
    page = open_page(browser, report)
    page.locator("body[data-ready]").wait_for()
    page.select_option("#task", "Point-Goal")
    page.locator("#smoothing").fill("0")
    yield page
    page.close()


def card(page, task):
    return page.locator(".verdict").filter(has=page.locator("h2", has_text=task))


def run_of(page, words):
    """A run, opened, with its contents."""
    run = page.locator("details.run").filter(has=page.locator("summary", has_text=words))
    if run.get_attribute("open") is None:
        run.locator("summary").first.click()
    run.locator(".opened").wait_for()
    return run


def tip(page, chart, x, y):
    """What the chart tells of a place in it, in fractions of its plotting area."""
    over = chart.locator(".u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    return over.locator(".tip").inner_text()


def column(page, number):
    return page.locator(f"#table tbody tr:not(.group) > :nth-child({number + 1})").all_inner_texts()


def titles(page):
    return page.locator("#table thead th").all_inner_texts()


def curves(page, number=0):
    """The curves of a panel: names and last values, as the chart tells them at its end."""
    return tip(page, page.locator("#curves .panel").nth(number), 0.999, 0.5).split("\n")


def test_the_verdict_stands_first_and_says_how_sure_it_is(page):
    assert page.locator("main > :first-child").get_attribute("id") == "verdict"
    text = card(page, "Point-Goal").inner_text()
    assert "CVPO earns most within the limit: reward 100 [75.2, 125], cost 8 [5.52, 10.5]" in text
    assert "96% sure to be within the limit" in text
    assert "Over it, trained without a limit: TRPO (60)" in text


def test_a_task_with_named_costs_shows_each_in_the_plane(page):
    two = card(page, "Two costs")
    assert "speed ≤ 5, crash ≤ 6" in two.inner_text() and "With one seed" in two.inner_text()
    assert two.locator("select option").all_inner_texts() == ["speed", "crash"]
    two.locator("select").select_option("crash")
    assert "crash 4" in tip(page, two, 0.6154, 0.5)


def test_what_is_within_the_limit_is_shaded(page):
    seen = picture(card(page, "Two costs").locator(".u-over"))
    inside, outside = (seen.getpixel((int(x * seen.width), 5)) for x in (0.3, 0.99))
    assert inside == (227, 243, 234) and outside == (255, 255, 255)


def test_no_chart_is_empty(page):
    charts = page.locator("#verdict .u-over, #curves .u-over").all()
    assert len(charts) == 5
    for chart in charts:
        assert len(picture(chart).getcolors(100_000)) > 20


def test_hovering_tells_values_and_their_spread(page):
    told = curves(page)
    assert told[0] == "environment steps 3k"
    assert told[1:3] == ["TRPO 300", "CVPO 100 ± 8.16"]


def test_methods_can_be_toggled(page):
    page.locator("#methods .chip", has_text="TRPO").click()
    assert not any("TRPO" in line for line in curves(page))
    page.locator("#methods .chip", has_text="TRPO").click()
    assert any("TRPO" in line for line in curves(page))


def test_the_axis_can_be_cost_or_time(page):
    page.select_option("#x-axis", "train/cumulative_cost")
    assert curves(page)[0] == "cumulative cost 180"
    page.select_option("#x-axis", "wall")
    assert curves(page)[0] == "wall time 6 s"
    page.select_option("#x-axis", "steps")


def test_any_logged_metric_can_be_drawn_and_smoothed(page):
    panel = page.locator("#curves .panel").first
    assert panel.locator("optgroup").evaluate_all("groups => groups.map(group => group.label)") == [
        "train", "eval", "estep", "progress",
    ]  # fmt: skip
    panel.locator("select").select_option("estep/kl")
    assert curves(page)[1].startswith("CVPO 0.2")
    page.locator("#smoothing").fill("50")
    assert curves(page)[1].startswith("CVPO 0.15")  # of the last two of three epochs
    page.locator("#smoothing").fill("0")
    panel.locator("select").select_option("train/within_limit")
    assert curves(page)[1].startswith("CVPO 1")
    panel.locator("select").select_option("train/reward")


def test_single_runs_and_chosen_ones_are_drawn(page):
    page.select_option("#draw", "runs")
    assert "Point-Goal · CVPO · seed 2 110" in curves(page)
    page.select_option("#draw", "methods")
    page.get_by_label("Lay Point-Goal · CVPO · seed 2 over the curves").check()
    assert {"CVPO 100 ± 8.16", "Point-Goal · CVPO · seed 2 110"} < set(curves(page))
    page.locator("#chosen .chip").click()
    assert "Point-Goal · CVPO · seed 2 110" not in curves(page)


def test_dragging_zooms_both_panels_and_a_button_shows_all(page):
    box = page.locator("#curves .panel .u-over").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + 60, steps=4)
    page.mouse.up()
    assert page.locator("#curves .all:visible").count() == 2
    assert tip(page, page.locator("#curves .panel").nth(1), 0.29, 0.5).startswith("environment steps 2k")
    page.locator("#curves .all").first.click()
    assert page.locator("#curves .all:visible").count() == 0
    assert curves(page)[0] == "environment steps 3k"


def test_the_keyboard_reads_and_zooms(page):
    frame = page.locator("#curves .frame").first
    frame.focus()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    spoken = frame.locator(".spoken")
    assert "environment steps 2k" in spoken.inner_text() and "CVPO" in spoken.inner_text()
    page.keyboard.press("+")
    assert frame.locator(".all").is_visible()
    page.keyboard.press("0")
    assert not frame.locator(".all").is_visible()
    plane = card(page, "Point-Goal").locator(".frame")
    plane.focus()
    page.keyboard.press("ArrowRight")
    assert plane.locator(".spoken").inner_text().startswith("CVPO")


def test_the_table_marks_the_best_and_what_is_over_the_limit(page):
    assert page.locator("#table tr.group").all_inner_texts()[0].startswith("<img")
    assert [text for text in column(page, 0) if "★" in text] == ["CVPO ★"] * 4
    over = page.locator("#table tr", has=page.locator("td.over")).all_inner_texts()
    assert over and all(text.startswith("TRPO") for text in over)
    assert "Limit" not in titles(page) and "Behind" not in titles(page) and "Unfinished" in titles(page)


def test_no_column_is_cut_at_1280_pixels(page):
    assert page.locator("#table .scroll").evaluate("box => box.scrollWidth - box.clientWidth") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_the_table_sorts_within_each_task_by_numbers_and_words(page):
    reward = titles(page).index("Reward")
    heading = page.locator("#table thead th").nth(reward)
    heading.get_by_role("button").click()
    assert [text.split(" ±")[0] for text in column(page, reward)][1:4] == ["20", "100", "300"]
    heading.get_by_role("button").click()
    assert [text.split(" ±")[0] for text in column(page, reward)][1:4] == ["300", "100", "20"]
    assert heading.get_attribute("aria-sort") == "descending"
    eval_reward = titles(page).index("Eval reward")
    page.locator("#table thead th").nth(eval_reward).get_by_role("button").click()
    assert column(page, eval_reward)[1:4] == ["5", "–", "–"]  # what was not measured comes last
    page.locator("#table thead th").first.get_by_role("button").click()
    assert [text.removesuffix(" ★") for text in column(page, 0)[1:4]] == ["CVPO", "SAC-Lag", "TRPO"]


def test_the_table_can_be_filtered(page):
    page.fill("#table-filter", "goal trpo")
    assert column(page, 0) == ["TRPO"]
    page.fill("#table-filter", "")
    page.check("#only-within")
    assert "TRPO" not in column(page, 0)
    page.uncheck("#only-within")


def test_a_run_shows_its_metrics_by_group_its_settings_and_its_films(page):
    run = run_of(page, "Point-Goal · CVPO · seed 0")
    assert run.locator(".charts").first.locator("h4").all_inner_texts()[0].startswith("reward")
    groups = run.locator("details.group > summary")
    assert [group.locator("small").inner_text() for group in groups.all()][1:3] == ["2 metrics", "2 metrics"]
    groups.nth(2).click()
    run.locator("details.group").nth(2).locator("h4").nth(1).wait_for()  # drawn when the group has opened
    assert run.locator("details.group").nth(2).locator("h4").all_inner_texts() == ["estep/kl", "estep/feasible"]
    assert run.locator(".changed tbody tr").all_inner_texts() == ["batch_size\t300\t256"]
    settings = json.loads(run.locator("details.settings pre").text_content())
    assert settings["config"]["kl_constraint"] is True
    film, large = run.locator(".films figure").all()
    assert film.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    assert large.locator("video").evaluate("film => film.src.slice(-24)") == "cvpo-0/inspect/worst_1.mp4"[-24:]


def test_a_run_with_two_costs_calls_them_by_name(page):
    run = run_of(page, "Two costs")
    assert run.locator(".charts").first.locator("h4").all_inner_texts() == ["reward", "speed", "crash"]
    run.locator("details.group > summary").first.click()
    run.locator("details.group").first.locator("h4").first.wait_for()
    assert "train/cost (crash)" in run.locator("details.group h4").all_inner_texts()


def test_a_failed_run_shows_its_error_as_text(page):
    run = run_of(page, "failed")
    assert run.locator("pre.error").first.inner_text() == f"ValueError: {ODD}"
    assert page.title() != "taken"


def test_a_run_of_one_epoch_is_a_point(page):
    run = run_of(page, "failed")
    chart = run.locator(".chart").first
    assert "training episodes 1" in tip(page, chart, 0.5, 0.5)


def test_runs_that_are_left_out_are_named(page):
    assert page.locator("#left-out-list").inner_text() == "begun: it has no finished epoch yet"


def test_runs_can_be_filtered(page):
    page.fill("#run-filter", "point-goal sac")
    assert page.locator(".run-row:visible").count() == 1
    page.fill("#run-filter", "")


def test_no_error_and_no_network(page):
    # last: what all the tests above have provoked. The large film is no film at all, which its player may say.
    assert [said for said in page.said if "worst_1.mp4" not in said] == []
    assert {url.split(":")[0] for url in page.asked_for} <= {"file", "data"}


PINCH = """over => {
  const box = over.getBoundingClientRect();
  const touch = (id, x) => new Touch({ identifier: id, target: over, clientX: box.left + x, clientY: box.top + 50 });
  for (const [kind, a, b] of [["touchstart", 150, 200], ["touchmove", 100, 250]]) {
    over.dispatchEvent(new TouchEvent(kind, { touches: [touch(0, a), touch(1, b)], cancelable: true }));
  }
}"""


def test_on_a_phone_nothing_is_wider_than_the_screen_and_two_fingers_zoom(browser, report):
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "color_scheme": "dark"}
    page = open_page(browser, report, **phone)
    page.locator("body[data-ready]").wait_for()
    page.select_option("#task", "Point-Goal")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    frame = page.locator("#curves .frame").first
    frame.locator(".u-over").evaluate(PINCH)
    assert frame.locator(".all").is_visible()
    assert page.said == []
    page.close()
