"""Runs from anybody: nothing private ends up in the page, and no run stops or stalls the report on the others."""

import json
import os
import re

from made_runs import shown_by, write_run

from cvpo.report.load import load_runs, read_error
from cvpo.report.write import write_report

REWARD, COST = [1.0, 2.0, 3.0], [5.0, 6.0, 7.0]


def changed(path, **settings):
    """A run whose config.json says something else."""
    file = write_run(path, REWARD, COST) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def with_line(path, line):
    """A run with a further line in its metrics."""
    with (write_run(path, REWARD, COST) / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")


def deep(levels):
    return [] if not levels else [deep(levels - 1)]


BAD_SETTINGS = {
    "long-name": ({"env": "x" * 100_000}, "a name that no figure has room for: 'env'"),
    "long-setting": ({"config": {"note": "x" * 100_000}}, "no figure has room for: 'note'"),
    "control": ({"env": "a\x00\x1b[2J"}, "no figure has room for: 'env'"),
    "list": ({"config": []}, "'config' in .* must be an object"),
    "deep": ({"config": {"hidden": deep(200)}}, "nested too deeply"),
    "steps": ({"steps": 10**400}, "steps of .* beyond what can be drawn"),
    "limits": ({"cost_limit": [1.0] * 10_000}, "10000 cost limits; a report shows at most"),
    "large": ({"note": "x" * 2_000_000}, "the settings of a run have at most 1,000,000"),
    "method": ({"off_policy": "yes"}, "'off_policy' in .* must be true or false"),
}
BAD_LINES = {
    "huge": (b'{"epoch": 3, "steps": 4000, "train/reward": 1' + b"0" * 400 + b"}", "train/reward of .* beyond what"),
    "overflowing": (b'{"epoch": 3, "steps": 4000, "train/reward": 1e308}', "train/reward of .* beyond what"),
    "backwards": (b'{"epoch": 3, "steps": 5}', "do not grow"),
    "stepless": (b'{"epoch": 3}', "do not grow"),
    "binary": (b"\x00\xff\x00", "line 4 is not text"),
}


def test_every_bad_run_is_listed_with_its_reason(tmp_path):
    write_run(tmp_path / "good", REWARD, COST)
    for name, (settings, _) in BAD_SETTINGS.items():
        changed(tmp_path / name, **settings)
    for name, (line, _) in BAD_LINES.items():
        with_line(tmp_path / name, line)
    found, unread = load_runs([tmp_path])
    assert [run.path.name for run in found] == ["good"]
    reasons = {item.path.name: item.reason for item in unread}
    expected = {name: words for name, (_, words) in (BAD_SETTINGS | BAD_LINES).items()}
    assert reasons.keys() == expected.keys()
    for name, words in expected.items():
        assert re.search(words, reasons[name]), (name, reasons[name])
        assert len(reasons[name]) < 500


def test_too_many_metrics_or_names_that_are_none(tmp_path):
    many = json.dumps({"epoch": 3, "steps": 4000} | {f"m{i}": 1.0 for i in range(1000)})
    with_line(tmp_path / "many", many.encode())
    with_line(tmp_path / "odd", json.dumps({"epoch": 3, "steps": 4000, "\x1b[2J": 1.0}).encode())
    with_line(tmp_path / "long", json.dumps({"epoch": 3, "steps": 4000, "x" * 1000: 1.0}).encode())
    reasons = {item.path.name: item.reason for item in load_runs([tmp_path])[1]}
    assert "metrics; a report shows at most 500" in reasons["many"]
    assert "no page has room for" in reasons["odd"] and "no page has room for" in reasons["long"]


def test_an_error_is_read_from_a_file_of_the_run_alone_and_not_all_of_it(tmp_path):
    (tmp_path / "secret").write_text("my private key")
    link = write_run(tmp_path / "link", REWARD, COST)
    (link / "error.txt").symlink_to(tmp_path / "secret")
    pipe = write_run(tmp_path / "pipe", REWARD, COST)
    os.mkfifo(pipe / "error.txt")
    long = write_run(tmp_path / "long", REWARD, COST)
    (long / "error.txt").write_bytes(b"x" * 1_000_000 + b"\x1b[2J\xff the end")
    assert read_error(link) is None and read_error(pipe) is None
    assert len(read_error(long)) <= 20_000 and read_error(long).endswith("�[2J� the end")


def test_odd_names_are_only_names(tmp_path):
    odd = r"<script>alert(1)</script> $\frac$ [x](y) | 100%"
    write_run(tmp_path / "runs" / "odd", REWARD, COST, env=odd)
    strange = os.fsdecode(b"not-\xff-text")
    write_run(tmp_path / "runs" / strange, REWARD, COST, seed=1)
    page = write_report([tmp_path / "runs"], tmp_path / "report", formats=["svg"])
    assert "<script>alert" not in page.read_text()
    assert {task["name"] for task in shown_by(page)["tasks"]} == {odd, "Point-Goal"}
    table = (page.parent / "table.md").read_text()
    assert r"&lt;script&gt;alert(1)&lt;/script&gt; $\frac$ \[x\](y) \| 100%" in table


def test_only_films_that_are_files_of_the_run_are_shown(tmp_path):
    secret = tmp_path / "secret.gif"
    secret.write_bytes(b"my private key")
    run = write_run(tmp_path / "runs" / "a", REWARD, COST)
    (run / "videos").mkdir()
    (run / "videos" / "link.gif").symlink_to(secret)
    (run / "videos" / "directory.gif").mkdir()
    os.mkfifo(run / "videos" / "pipe.gif")
    (run / "videos" / "film.gif").write_bytes(b"GIF89a")
    other = write_run(tmp_path / "runs" / "b", REWARD, COST, seed=1)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "holiday.gif").write_bytes(b"my holiday")
    (other / "videos").symlink_to(tmp_path / "private")
    page = write_report([tmp_path / "runs"], tmp_path / "report", formats=["svg"])
    films = [film for run in shown_by(page)["runs"] for film in run["films"]]
    assert films == [{"name": "film", "type": "image/gif", "source": "data:image/gif;base64,R0lGODlh"}]
