// The second click of a double click does not send a form again: its refusal would hide what the first one has done.
"use strict";
(() => {
  const DOUBLE_CLICK_MS = 1000;
  let sentBy = null, sentAt = 0;
  addEventListener("submit", (event) => {
    if (event.submitter === sentBy && event.timeStamp - sentAt < DOUBLE_CLICK_MS) return event.preventDefault();
    sentBy = event.submitter;
    sentAt = event.timeStamp;
  });
})();
