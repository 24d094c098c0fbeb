"""The report as a whole: its files, its page without a browser, its independence from JAX."""

import subprocess
import sys

import pytest
from made_runs import shown_by, write_run

from cvpo.report import write_report
from cvpo.runs.directory import RunDirectoryError


def test_needs_no_jax():
    program = "import sys, cvpo.report; print('jax' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "False\n"


def test_files(runs, tmp_path):
    write_run(runs / "a", [1.0, 2.0], [3.0, 4.0])
    page = write_report([runs], tmp_path / "out" / "report", formats=("png", "pdf"))
    assert page == tmp_path / "out" / "report" / "index.html"
    names = sorted(path.relative_to(page.parent).as_posix() for path in page.parent.rglob("*") if path.is_file())
    figures = [
        "convergence_cost",
        "final_intervals",
        "limit_satisfaction",
        "reward_against_cost",
        "training_off_policy",
    ]
    assert names == [
        *(f"figures/{name}.{ending}" for name in figures for ending in ("pdf", "png")),
        "index.html",
        "table.csv",
        "table.md",
    ]


def test_what_runs_say_is_text_not_markup(runs, tmp_path):
    write_run(runs / "a", [1.0, 2.0], [3.0, 4.0], env="<script>alert(1)</script>", algorithm="<b>&")
    text = write_report([runs], tmp_path / "out").read_text()
    assert text.count("<script") == 2 and text.count("</script") == 2  # the page's own
    assert "<b>&" not in text


def test_runs_left_out_are_named_with_the_reason(runs, tmp_path):
    write_run(runs / "a", [1.0], [3.0])
    write_run(runs / "just-begun", [], [])
    (left_out,) = shown_by(write_report([runs], tmp_path / "out"))["leftOut"]
    assert left_out == {"path": "just-begun", "reason": "it has no finished epoch yet", "error": None}


def test_no_runs_is_an_error_that_says_what_a_run_is(runs, tmp_path):
    with pytest.raises(RunDirectoryError, match=r"no run to report on in or below .*config\.json and metrics\.jsonl"):
        write_report([runs], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_unknown_format(runs, tmp_path):
    write_run(runs / "a", [1.0], [3.0])
    with pytest.raises(ValueError, match="png, svg, pdf, got 'bmp'"):
        write_report([runs], tmp_path / "out", formats=("bmp",))
