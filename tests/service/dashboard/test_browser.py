"""The pages in a real browser."""

import asyncio
import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from support.browser import Browser
from support.dashboard_site import AXES, Site, tell


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        pytest.skip("neither chromium nor chromium-browser is on the path")
    with Browser(program, tmp_path / "profile") as running:
        yield running


# Counts the page's requests, and those of them that it is still working on.
COUNT_REQUESTS = """
window.requests = { all: 0, open: 0 };
const send = window.fetch;
window.fetch = async (...given) => {
  window.requests.all += 1;
  window.requests.open += 1;
  const done = () => setTimeout(() => { window.requests.open -= 1; });
  try {
    const answer = await send(...given);
    const text = answer.text.bind(answer);
    answer.text = () => text().finally(done);
    return answer;
  } catch (error) {
    done();
    throw error;
  }
};
"""
# Hide the page, wait until its last request has ended, and show it again: how many requests each of the two has caused.
HIDE_AND_SHOW = """
(async () => {
  const show = (shown) => {
    Object.defineProperty(document, "hidden", { value: !shown, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
    return window.requests.all;
  };
  show(false);
  while (window.requests.open) await new Promise((done) => setTimeout(done, 10));
  const before = window.requests.all;
  return [show(false) - before, show(true) - before];
})()
"""
# Move the cursor over the first chart, and read what is shown there.
POINT_AT_CHART = """
(() => {
  const chart = document.querySelector("svg[data-places]");
  const { left, top, width, height } = chart.getBoundingClientRect();
  const at = { bubbles: true, clientX: left + width / 2, clientY: top + height / 2 };
  chart.dispatchEvent(new PointerEvent("pointermove", at));
  const tip = document.querySelector(".tooltip");
  return tip.hidden ? "" : tip.innerText;
})()
"""


def test_a_browser_logs_in_and_sees_new_decisions_without_reloading(tmp_path: Path, browser: Browser) -> None:
    async def story(site: Site) -> None:
        await site.create("news", tuner={"name": "Syndicated"}, space=AXES)
        made = await site.play("news", 10)
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(site.app, log_level="error", lifespan="off", ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await asyncio.to_thread(log_in, browser, url, site.secret)
        await site.play("news", 7)
        await asyncio.to_thread(look_on, browser)
        await asyncio.to_thread(browser.open, f"{url}/bandits/news/decisions/{made[0].decision_id}")
        await asyncio.to_thread(browser.ask, "Page.addScriptToEvaluateOnNewDocument", source=COUNT_REQUESTS)
        await asyncio.to_thread(browser.open, f"{url}/bandits/news")
        assert (await asyncio.to_thread(browser.js, POINT_AT_CHART)).startswith("decision ")
        assert browser.complaints() == []
        assert await asyncio.to_thread(browser.js, HIDE_AND_SHOW) == [0, 1]
        server.should_exit = True
        await asyncio.to_thread(browser.until, "document.querySelector('.connection.away') !== null")
        await serving

    tell(tmp_path, story)


def log_in(browser: Browser, url: str, secret: str) -> None:
    browser.open(f"{url}/bandits/news")
    assert browser.js("location.pathname") == "/login"
    browser.js(f"document.getElementById('key').value = {json.dumps(secret)}; document.forms[0].requestSubmit()")
    browser.loaded()
    assert browser.js("location.pathname") == "/bandits/news"
    assert browser.js("document.cookie") == ""
    assert browser.js("document.getElementById('decisions').textContent") == "10"
    assert browser.js("getComputedStyle(document.querySelector('svg .line')).fill") == "none"
    browser.js("document.querySelector('details').open = true; document.querySelector('summary').focus()")
    browser.js("window.here = true")


def look_on(browser: Browser) -> None:
    browser.until("document.getElementById('decisions').textContent === '17'")
    assert browser.js("window.here") is True
    assert browser.js("document.querySelector('details').open") is True
    assert browser.js("document.activeElement.id") == "stretches-summary"
    browser.until("document.getElementById('connection').textContent === 'Updating'")
