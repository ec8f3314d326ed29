// Keeps the page of a bandit up to date: fetches its numbers every two seconds while the page is visible.
"use strict";

(() => {
  const REFRESH_MS = 2000;
  const TIMEOUT_MS = 10000;
  const live = document.getElementById("live");
  const connection = document.getElementById("connection");
  let shown = "";
  let timer = 0;
  let busy = false;

  function say(text, away) {
    if (connection.textContent !== text) connection.textContent = text;
    connection.classList.toggle("away", away);
  }

  // Keeps what the reader has opened, scrolled to or focused.
  function replace(text) {
    const open = [...live.querySelectorAll("details[open]")].map((each) => each.id);
    const scrolled = [...live.querySelectorAll(".scroll")].map((each) => [each.id, each.scrollLeft]);
    const focus = live.contains(document.activeElement) ? document.activeElement : null;
    const [id, link] = focus ? [focus.id, focus.getAttribute("href")] : ["", null];
    live.innerHTML = text;
    for (const each of live.querySelectorAll("details")) each.open = open.includes(each.id);
    for (const [own, left] of scrolled) {
      const each = document.getElementById(own);
      if (each) each.scrollLeft = left;
    }
    const links = [...live.querySelectorAll("a")];
    const again = id ? document.getElementById(id) : links.find((each) => each.getAttribute("href") === link);
    if (focus && again) again.focus({ preventScroll: true });
  }

  // New numbers wait while the reader selects text.
  function selecting() {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && live.contains(selection.anchorNode);
  }

  async function refresh() {
    if (busy || document.hidden) return;
    busy = true;
    clearTimeout(timer);
    try {
      const answer = await fetch(live.dataset.live, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (answer.redirected) {
        location.reload(); // the key is no longer valid: the page itself redirects to the login
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      if (text !== shown && !selecting()) {
        replace(text);
        shown = text;
      }
      say("Updating", false);
    } catch {
      say("Not updating: the service does not answer. These are the last numbers; trying again.", true);
    }
    busy = false;
    timer = setTimeout(refresh, REFRESH_MS);
  }

  document.addEventListener("visibilitychange", refresh);
  timer = setTimeout(refresh, REFRESH_MS);
  say("Updating", false);
})();
