// Keeps the sections of the page up to date, with the events of /events: each names sections that changed, and has their HTML.
"use strict";
(() => {
  const state = document.getElementById("state"), pause = document.getElementById("pause");
  const skew = document.body.dataset.now - Date.now(); // of this machine's clock
  const waiting = new Map(); // HTML by section, not shown yet
  let stream, silence, paused = false, live = false;

  // say shows whether the page is live; a screen reader announces it only when it changes.
  function say() {
    const text = paused ? "Paused" : live ? "Live" : stream.readyState === EventSource.CLOSED ? "Not live: reload the page" : "Not live: no connection";
    if (state.textContent !== text) state.textContent = text;
    state.dataset.state = paused ? "paused" : live ? "live" : "lost";
  }

  // heard notes a sign of life: the server sends one at least every 15 s.
  function heard() {
    live = true;
    clearTimeout(silence);
    silence = setTimeout(lost, 45000);
    say();
  }

  function lost() {
    live = false;
    clearTimeout(silence);
    say();
    if (stream.readyState === EventSource.CLOSED) silence = setTimeout(connect, 15000); // the browser does not try again
  }

  function leave() {
    clearTimeout(silence);
    if (stream) stream.close();
  }

  function connect() {
    leave();
    stream = new EventSource("/events?after=" + document.body.dataset.after);
    stream.onopen = heard;
    stream.onerror = lost;
    stream.addEventListener("beat", heard);
    stream.onmessage = (event) => {
      document.body.dataset.after = event.lastEventId;
      for (const [id, html] of Object.entries(JSON.parse(event.data))) waiting.set(id, html);
      heard();
      show();
    };
  }

  // show replaces the sections that wait, but none that somebody is clicking or selecting text in.
  function show() {
    for (const [id, html] of waiting) {
      const part = document.getElementById("live-" + id);
      if (part && (paused || part.matches(":active") || selecting(part))) continue;
      waiting.delete(id);
      if (part) replace(part, html);
    }
  }

  function selecting(part) {
    const chosen = getSelection();
    return !chosen.isCollapsed && chosen.rangeCount > 0 && chosen.getRangeAt(0).intersectsNode(part);
  }

  // key names an element across replacements. A checked box counts for what its form was about, which a hidden field says.
  function key(e) {
    const form = e.form ? e.form.getAttribute("action") : "";
    switch (e.tagName) {
      case "DETAILS": return "details " + e.firstElementChild.textContent;
      case "SUMMARY": return "summary " + e.textContent;
      case "BUTTON": return "button " + form + e.name + e.value;
      case "INPUT": if (e.type === "checkbox") return "box " + form + e.name + (e.form?.querySelector("[type=hidden]")?.value ?? "");
    }
    return e.id || [e.tagName, form, e.name, e.getAttribute("href"), e.type === "radio" ? e.value : "", e.getAttribute("aria-label")].join(" ");
  }

  const all = (part, what) => [...part.querySelectorAll(what)];

  // replace sets the HTML of a section, and keeps the focus, what was entered, what is unfolded, and how far its tables are scrolled.
  function replace(part, html) {
    const focus = part.contains(document.activeElement) ? document.activeElement : null;
    const focused = focus && key(focus);
    let range = null;
    try { range = focus && [focus.selectionStart, focus.selectionEnd]; } catch { /* an element without a selection */ }
    const entered = new Map(), open = new Map();
    for (const e of all(part, "input, textarea")) {
      if (e.type !== "hidden" && (e.value !== e.defaultValue || e.checked !== e.defaultChecked)) entered.set(key(e), [e.value, e.checked]);
    }
    for (const e of all(part, "select")) entered.set(key(e), [e.value, false]);
    for (const e of all(part, "details")) open.set(key(e), e.open);
    const scrolled = all(part, ".wide").map((e) => e.scrollLeft);
    part.innerHTML = html;
    for (const e of all(part, "input, textarea, select")) {
      const was = entered.get(key(e));
      if (was && e.tagName === "SELECT") { if ([...e.options].some((o) => o.value === was[0])) e.value = was[0]; }
      else if (was) { if (e.type !== "radio" && e.type !== "checkbox") e.value = was[0]; e.checked = was[1]; }
    }
    for (const e of all(part, "details")) if (open.has(key(e))) e.open = open.get(key(e));
    all(part, ".wide").forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
    if (focused) {
      const e = all(part, "a, button, input, textarea, select, summary, [tabindex]").find((e) => key(e) === focused) || part.parentElement.querySelector("h2");
      e.focus({ preventScroll: true });
      if (range && range[0] !== null && e.setSelectionRange) try { e.setSelectionRange(...range); } catch { /* as above */ }
    }
    const hidden = html === "";
    part.parentElement.hidden = hidden;
    const link = document.querySelector(`nav a[href="#${part.parentElement.id}"]`);
    if (link) link.parentElement.hidden = hidden;
    times(part);
  }

  // times writes how long ago each time was.
  function times(part) {
    for (const e of all(part, "time[datetime]")) {
      const at = new Date(e.dateTime), seconds = (Date.now() + skew - at) / 1000, past = Math.abs(seconds);
      const [n, unit] = past < 90 ? [past, "s"] : past < 5400 ? [past / 60, "min"] : past < 129600 ? [past / 3600, "h"] : [past / 86400, "days"];
      const text = past < 2 ? "now" : (seconds < 0 ? "in " : "") + Math.round(n) + "\u00a0" + unit + (seconds < 0 ? "" : " ago");
      if (e.textContent !== text) e.textContent = text;
      e.title = at.toLocaleString();
    }
  }

  pause.hidden = false;
  pause.onclick = () => {
    paused = !paused;
    pause.textContent = paused ? "Resume updates" : "Pause updates";
    say();
    show();
  };
  document.addEventListener("pointerup", () => setTimeout(show));
  document.addEventListener("selectionchange", () => setTimeout(show));
  // A browser has few connections to a server: a window that nobody sees must not hold one.
  document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); else connect(); });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
  setInterval(() => { times(document.body); show(); }, 5000);
  times(document.body);
  if (!document.hidden) connect();
})();
