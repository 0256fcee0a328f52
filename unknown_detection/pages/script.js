"use strict";
// Tables that can be sorted, searched and folded, the choice of a theme, and buttons that copy. Without it a page is whole.
(() => {
  const root = document.documentElement;
  const THEMES = ["system", "light", "dark"];
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  let theme = THEMES.includes(stored()) ? stored() : "system";
  const applyTheme = () => { root.dataset.theme = theme; };
  applyTheme(); // before anything is drawn

  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  function addThemeButton() {
    const button = element("button", { type: "button", className: "theme" });
    const label = () => { button.textContent = `Theme: ${theme}`; };
    button.addEventListener("click", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      try { localStorage.setItem("theme", theme); } catch { /* a page opened from a file may not store */ }
      applyTheme();
      label();
    });
    label();
    document.querySelector("header.top").prepend(button);
  }

  const order = cell => cell.dataset.order ?? cell.textContent.trim();
  const isMissing = text => text === "" || text === "–" || text === "nan" || text === "None";

  // Numbers by value, texts as people read them; what is missing stands last in both directions.
  function compare(a, b, sign) {
    if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
    const [x, y] = [Number(a), Number(b)];
    const both = !Number.isNaN(x) && !Number.isNaN(y);
    return sign * (both ? x - y : a.localeCompare(b, "en", { numeric: true, sensitivity: "base" }));
  }

  function addSorting(table, changed) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    if (body.rows.length < 2) return;
    heads.forEach((head, column) => {
      if ("unsortable" in head.dataset) return;
      const button = element("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
        heads.forEach(other => { if (other.ariaSort) other.setAttribute("aria-sort", other === head ? direction : "none"); });
        const sign = direction === "ascending" ? 1 : -1;
        const keyed = [...body.rows].map(row => [order(row.cells[column]), row]);
        keyed.sort((one, other) => compare(one[0], other[0], sign));
        body.append(...keyed.map(pair => pair[1]));
        changed();
      });
    });
  }

  // Returns what to call when the rows' order has changed.
  function addSearchAndFold(box, table) {
    const first = Number(box.dataset.first ?? 0);
    const rows = () => [...table.tBodies[0].rows];
    const texts = new Map(rows().map(row => [row, row.textContent.toLowerCase()]));
    const tools = element("div", { className: "tools" });
    const input = element("input", { type: "search", autocomplete: "off", spellcheck: false });
    const count = element("output");
    const all = element("button", { type: "button", className: "more" });
    let folded = first > 0;
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let found = 0;
      for (const row of rows()) {
        const matches = words.every(word => texts.get(row).includes(word));
        found += matches;
        row.hidden = !matches || (folded && !words.length && found > first);
      }
      count.textContent = words.length ? `${found.toLocaleString("en")} of ${texts.size.toLocaleString("en")}` : "";
      all.hidden = !first || words.length > 0;
      all.textContent = folded ? `Show all ${texts.size.toLocaleString("en")} rows` : `Show the first ${first} rows`;
    };
    if ("searchable" in box.dataset) {
      const name = table.caption.textContent;
      tools.append(element("label", {}, element("span", { className: "hidden" }, `Search: ${name}`), input), count);
      input.placeholder = "Search";
      box.prepend(tools);
      input.addEventListener("input", show);
    }
    if (first) {
      box.append(all);
      all.addEventListener("click", () => { folded = !folded; show(); });
    }
    show();
    return show;
  }

  function addCopying(box) {
    const button = element("button", { type: "button", className: "copy" }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(box.querySelector("code").textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(box.querySelector("code"));
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    box.append(button);
  }

  // The contents mark the section that is read.
  function followReading() {
    const links = [...document.querySelectorAll("nav.contents a")];
    const places = links.map(link => document.getElementById(decodeURIComponent(link.hash.slice(1))));
    const mark = () => {
      let current = -1;
      places.forEach((place, number) => { if (place && place.getBoundingClientRect().top < innerHeight / 3) current = number; });
      links.forEach((link, number) => number === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
    };
    let due = false;
    addEventListener("scroll", () => {
      if (due) return;
      due = true;
      requestAnimationFrame(() => { due = false; mark(); });
    }, { passive: true });
    mark();
  }

  addEventListener("DOMContentLoaded", () => {
    addThemeButton();
    for (const box of document.querySelectorAll("div.table")) {
      const table = box.querySelector("table");
      addSorting(table, addSearchAndFold(box, table));
    }
    document.querySelectorAll(".code").forEach(addCopying);
    followReading();
  });
})();
