// Asks again and again whether anything has changed, less often while nothing does, and only then for the page. A page that nobody
// looks at asks nothing.
"use strict";
(() => {
  const SHORT_MS = 2000, LONG_MS = 15000, WHOLE_MS = 60000, ANSWER_MS = 20000;
  const said = document.getElementById("liveness");
  const live = () => document.getElementById("live");
  if (!live()?.hasAttribute("data-live")) return;
  const token = document.querySelector("[name=form_token]").value;
  let readAt = Date.now(), timer = 0, pause_ms = SHORT_MS, trouble = "";

  function say(text) {
    said.textContent = text;
    said.classList.toggle("alarm", trouble !== "");
    if (trouble) said.setAttribute("role", "alert"); else said.removeAttribute("role");
  }

  function complain(reason) {
    trouble = reason;
    say("The zone does not answer (" + reason + "); the page is as it was at " + time(readAt) + ".");
  }

  const time = (at) => new Date(at).toISOString().slice(11, 19);

  // By GET, also where the page is the answer to a form; what the zone says now stands there then.
  const leave = () => location.replace(location.pathname + location.search);

  const isBusy = () => {
    const field = document.activeElement, chosen = getSelection();
    return (live().contains(field) && field.matches("input, select, textarea"))
      || (!chosen.isCollapsed && live().contains(chosen.anchorNode));
  };

  async function look() {
    timer = 0;
    if (document.hidden) return;
    try {
      const answer = await fetch("/dashboard/news", { headers: { "HX-Request": "true" }, cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
      if (answer.status === 401) return leave();
      if (!answer.ok) throw new Error(String(answer.status));
      const isNews = await answer.text() !== live().dataset.live;
      pause_ms = isNews && !trouble ? SHORT_MS : Math.min(LONG_MS, pause_ms * 1.5);
      if (isNews || trouble || Date.now() - readAt > WHOLE_MS) {
        if (isBusy()) return say("There is news; it waits while something is chosen here.");
        htmx.trigger("#live", "news");
        document.dispatchEvent(new Event("zonesched:news"));
      }
      if (!trouble) say("Live: looked at " + time(Date.now()) + ".");
    } catch (error) {
      complain(error.message);
    } finally {
      plan();
    }
  }

  function plan(after_ms = pause_ms) {
    if (!timer && !document.hidden) timer = setTimeout(look, after_ms);
  }

  // What the reader has opened, moved and reached with the keyboard stays so in the part that is put in place.
  const alike = (it) => [...live().querySelectorAll(it.hasAttribute("href") ? `[href="${CSS.escape(it.getAttribute("href"))}"]` : it.localName)];
  const nameOf = (details) => (details.closest("[aria-labelledby]")?.getAttribute("aria-labelledby") ?? "") + details.firstElementChild.textContent;
  let kept = () => {};

  function keep() {
    const opened = new Set([...live().querySelectorAll("details[open]")].map(nameOf));
    const moved = [...live().querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    const at = document.activeElement, place = live().contains(at) ? alike(at).indexOf(at) : -1;
    kept = () => {
      for (const one of live().querySelectorAll("details")) one.open = opened.has(nameOf(one));
      live().querySelectorAll(".scroll").forEach((one, i) => { one.scrollLeft = moved[i] ?? 0; });
      if (place >= 0) (alike(at)[place] ?? document.getElementById("content")).focus({ preventScroll: true });
      kept = () => {};
    };
  }

  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const status = event.detail.xhr.status;
    // Another session of this browser, whose forms have another token, and whose user may be another one.
    if (event.detail.shouldSwap && !event.detail.xhr.responseText.includes(token)) return leave();
    if (status === 401 || status === 403 || status === 404) return leave();
    if (!event.detail.shouldSwap) return complain(String(status));
    readAt = Date.now();
    trouble = "";
    keep();
  });
  document.body.addEventListener("htmx:afterSwap", () => kept());
  document.body.addEventListener("htmx:sendError", () => complain("no connection"));
  document.body.addEventListener("htmx:timeout", () => complain("no answer in time"));
  document.addEventListener("visibilitychange", () => plan(0));
  plan(0);
})();
