"""The live page: what the server answers, and what a browser shows while a run goes on."""

import gzip
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from browser import needs_browser, open_page
from made_runs import write_run

from cvpo.errors import UserError
from cvpo.report import live


@contextmanager
def served(path):
    """The port of a server in this process."""
    ready, found = threading.Event(), []

    def announce(address):
        found.append(address)
        ready.set()

    threading.Thread(target=live.serve, args=([path], 0, announce), daemon=True).start()
    assert ready.wait(30)
    yield int(found[0].rstrip("/").rsplit(":", 1)[1])


def ask(port, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def shown(port):
    status, _, body = ask(port, "/data")
    assert status == 200
    return json.loads(gzip.decompress(body))


@pytest.fixture
def quick(monkeypatch):
    """A server that looks at the disk whenever it is asked."""
    monkeypatch.setattr(live, "_FEWEST_SECONDS", 0.0)


def append_epoch(run, epoch, reward):
    line = {"epoch": epoch, "steps": 1000 * (epoch + 1), "wall_seconds": 2.0, "train/reward": reward, "train/cost": 1.0}
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(line | {"train/cumulative_cost": 1.0}) + "\n")


def test_it_serves_the_page_its_data_and_its_films_and_nothing_else(runs, quick):
    run = write_run(runs / "a", [1.0], [2.0])
    (run / "videos").mkdir()
    (run / "videos" / "film.gif").write_bytes(b"GIF89a")
    (runs / "secret").write_text("my private key")
    (run / "videos" / "link.gif").symlink_to(runs / "secret")
    with served(runs) as port:
        status, headers, body = ask(port, "/")
        assert status == 200 and headers["Content-Type"].startswith("text/html") and b"<!doctype html>" in body
        ((film,),) = [item["films"] for item in shown(port)["runs"]]
        assert ask(port, "/" + film["source"])[2] == b"GIF89a"
        for path in ("/secret", "/../secret", "/a/config.json", "//etc/passwd", "/film/", "/film/../secret", "/data/x"):
            assert ask(port, path)[::2] == (404, b"")
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert ask(port, "/data", method)[0] == 501
        (run / "videos" / "film.gif").unlink()
        (run / "videos" / "film.gif").symlink_to(runs / "secret")
        assert ask(port, "/" + film["source"])[0] == 404
    assert sorted(path.name for path in runs.rglob("*") if not path.is_dir()) == [
        "config.json", "film.gif", "link.gif", "metrics.jsonl", "secret",
    ]  # fmt: skip


def test_only_this_machine_is_served(runs):
    write_run(runs / "a", [1.0], [2.0])
    with served(runs) as port:
        # a name of another site that leads to this machine
        assert ask(port, "/data", Host=f"evil.example:{port}")[0] == 403
        assert ask(port, "/data", Host=f"localhost:{port}")[0] == 200
    assert live.ADDRESS == "127.0.0.1"  # what it listens on: no other machine reaches that


def test_data_is_sent_again_only_when_runs_have_changed(runs, quick):
    run = write_run(runs / "a", [1.0], [2.0], planned_epochs=3)
    with served(runs) as port:
        _, headers, _ = ask(port, "/data")
        assert ask(port, "/data", **{"If-None-Match": headers["ETag"]})[0] == 304
        append_epoch(run, 1, 5.0)
        status, _, body = ask(port, "/data", **{"If-None-Match": headers["ETag"]})
        assert status == 200 and json.loads(gzip.decompress(body))["runs"][0]["steps"] == 2000
        write_run(runs / "b", [1.0], [2.0], seed=1)
        assert len(shown(port)["runs"]) == 2


def test_a_run_before_its_first_epoch_and_a_directory_that_goes(runs, quick):
    run = write_run(runs / "a", [], [], planned_epochs=3)
    with served(runs) as port:
        data = shown(port)
        assert data["runs"] == [] and data["leftOut"][0]["reason"] == "it has no finished epoch yet"
        append_epoch(run, 0, 5.0)
        assert len(shown(port)["runs"]) == 1
        runs.rename(runs.parent / "away")
        assert ask(port, "/data")[0] == 410


def test_a_port_that_is_taken_is_named(runs):
    with served(runs) as port, pytest.raises(UserError, match=f"port {port} cannot be used"):
        live.serve([runs], port)
    with pytest.raises(UserError, match="port must be from 0"):
        live.serve([runs], 99999)


@needs_browser
def test_the_page_follows_a_run_and_keeps_what_the_reader_chose(runs, browser, quick):
    run = write_run(runs / "a", [], [], planned_epochs=4)
    with served(runs) as port:
        page = open_page(browser, f"http://127.0.0.1:{port}/")
        page.get_by_text("No run has a finished epoch yet").wait_for()
        append_epoch(run, 0, 5.0)
        append_epoch(run, 1, 6.0)
        page.locator(".run-row").get_by_text("2k of 4k steps").wait_for()
        assert page.locator("#methods").inner_text() == "CVPO"
        page.locator("details.run summary").first.click()
        page.select_option("#x-axis", "wall")
        append_epoch(run, 2, 7.0)
        page.locator(".run-row").get_by_text("3k of 4k steps").wait_for()
        assert page.locator("details.run .opened canvas").count() == 2
        assert page.locator("#x-axis").input_value() == "wall"
        (run / "error.txt").write_text("ValueError: far too fast")
        page.locator(".state.failed").wait_for()
        assert page.locator("pre.error").inner_text() == "ValueError: far too fast"
        assert page.said == []
        assert {url.split("/")[2] for url in page.asked_for if url.startswith("http")} == {f"127.0.0.1:{port}"}
        page.close()


@pytest.mark.slow
@needs_browser
def test_training_with_a_page_beside_it(tmp_path, browser):
    """The whole way: `cvpo train --watch`, its address in the output, epochs on the page, and an end for both."""
    command = [sys.executable, "-m", "cvpo", "train", "Point-Goal", "--algorithm", "ppo-lag", "--steps", "10000000"]
    options = ["--envs", "2", "--eval-episodes", "1", "--run-dir", str(tmp_path / "run"), "--watch"]
    screenless = {key: value for key, value in os.environ.items() if "DISPLAY" not in key}
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=screenless) as training:
        try:
            address = next(line for line in training.stdout if line.startswith("watch ")).split()[1]
            page = open_page(browser, address)
            page.set_default_timeout(300_000)
            page.locator(".run-row .state.unfinished").wait_for()
            before = page.locator(".run-row small").inner_text()
            page.wait_for_function("text => document.querySelector('.run-row small').innerText !== text", arg=before)
            assert page.locator("#curves canvas").count() == 2
            training.send_signal(signal.SIGINT)
            training.stdout.read()
            assert training.wait(120) == 130
            page.get_by_text("the server has stopped").wait_for()
            assert [said for said in page.said if "ERR_CONNECTION" not in said] == []
            page.close()
        finally:
            training.kill()
