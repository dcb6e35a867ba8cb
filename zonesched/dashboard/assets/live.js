// Asks again and again whether anything has changed, less often while nothing does, and only then for the page. A page that nobody
// looks at asks nothing.
"use strict";
(() => {
  const SHORT_MS = 2000, LONG_MS = 15000, WHOLE_MS = 60000;
  const said = document.getElementById("liveness");
  if (!document.getElementById("live")?.hasAttribute("data-live")) return;
  let readAt = Date.now(), timer = 0, pause_ms = SHORT_MS;

  const isBusy = () => {
    const field = document.activeElement;
    return document.getElementById("live").contains(field) && field.matches("input, select, textarea");
  };

  async function look() {
    timer = 0;
    if (document.hidden) return;
    try {
      const answer = await fetch("/dashboard/news", { headers: { "HX-Request": "true" }, cache: "no-store" });
      if (answer.status === 401) return location.reload();
      if (!answer.ok) throw new Error(String(answer.status));
      const news = await answer.text();
      const isNews = news !== document.getElementById("live").dataset.live;
      pause_ms = !isNews ? Math.min(LONG_MS, pause_ms * 1.5) : SHORT_MS;
      const isOld = Date.now() - readAt > WHOLE_MS;
      if (isNews || isOld) {
        if (isBusy()) return;
        readAt = Date.now();
        htmx.trigger("#live", "news");
        document.dispatchEvent(new Event("zonesched:news"));
      }
      said.textContent = "Live: looked at " + new Date().toISOString().slice(11, 19) + ".";
    } catch (error) {
      said.textContent = "The zone does not answer (" + error.message + "); the page is as it was.";
    } finally {
      plan();
    }
  }

  function plan(after_ms = pause_ms) {
    if (!timer && !document.hidden) timer = setTimeout(look, after_ms);
  }

  document.addEventListener("visibilitychange", () => plan(0));
  plan(0);
})();
