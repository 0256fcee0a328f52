"use strict";
// The tree of classes. Only what is open is on the page, since a release may have thousands of classes.
addEventListener("DOMContentLoaded", () => {
  const MOST_OPENED = 60; // matches of a search that are shown at once
  const box = document.getElementById("tree");
  const data = JSON.parse(document.getElementById("class-data").textContent);
  const configOf = data.splits.map(split => split.split("/")[0]);
  const number = value => value.toLocaleString("en");
  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  const texts = data.classes.map(({ id, name, left }) => {
    const why = new Set(left.flatMap(([, rule, evidence]) => [data.rules[rule], data.evidence[evidence]]));
    return [id, name, ...why].join(" ").toLowerCase();
  });
  const all = new Map(); // the classes below each branch
  (function count(branches) {
    for (const branch of branches) {
      count(branch.branches);
      all.set(branch, [...branch.branches.flatMap(below => all.get(below)), ...branch.classes]);
    }
  })(data.trees);

  let [words, config, shown] = [[], "", new Set()];
  const inConfig = ([split]) => !config || configOf[split] === config;

  function chips(leaf) {
    const roles = [...new Set(leaf.kept.filter(inConfig).map(line => line[1]))].sort((a, b) => a - b);
    const made = roles.map(role => element("span", { className: `chip ${data.roles[role][0]}` }, data.roles[role][1]));
    return element("span", { className: "chips" }, ...(made.length ? made : [element("span", { className: "chip out" }, "left out")]));
  }

  // What several splits say alike is said once.
  function grouped(lines, keyOf) {
    const found = new Map();
    for (const line of lines) found.set(keyOf(line), [...(found.get(keyOf(line)) ?? []), line]);
    return [...found.values()];
  }

  const counted = (lines, last) => lines.map(line => `${data.splits[line[0]]} ${number(line[last])}`).join(", ");

  function reasons(leaf) {
    const list = element("dl");
    for (const lines of grouped(leaf.kept.filter(inConfig), line => line[1])) {
      list.append(element("dt", {}, `Rows, ${data.roles[lines[0][1]][1]}`), element("dd", {}, counted(lines, 2)));
    }
    for (const lines of grouped(leaf.left.filter(inConfig), line => `${line[1]} ${line[2]}`)) {
      list.append(
        element("dt", {}, `Left out: ${data.rules[lines[0][1]]}`),
        element("dd", {}, data.evidence[lines[0][2]]),
        element("dd", {}, counted(lines, 3)));
    }
    return list;
  }

  // A list item that is filled when it is opened.
  function opening(summary, fill, open) {
    const details = element("details", {}, summary);
    const filled = () => { if (details.open && details.children.length === 1) details.append(fill()); };
    details.addEventListener("toggle", filled);
    details.open = open;
    filled();
    return element("li", {}, details);
  }

  function leafItem(place) {
    const leaf = data.classes[place];
    const id = leaf.id === leaf.name ? [] : [element("code", {}, leaf.id), " "];
    return opening(element("summary", {}, `${leaf.name || leaf.id} `, ...id, chips(leaf)), () => reasons(leaf), false);
  }

  function branchItem(branch, open) {
    const below = all.get(branch).filter(place => shown.has(place));
    const kept = below.filter(place => data.classes[place].kept.some(inConfig)).length;
    const count = element("span", { className: "count" }, `${number(kept)} of ${number(below.length)}`);
    return opening(element("summary", {}, `${branch.title} `, count), () => element("ul", {},
      ...items(branch.branches, open), ...branch.classes.filter(place => shown.has(place)).map(leafItem)), open);
  }

  const items = (branches, open) => branches
    .filter(branch => all.get(branch).some(place => shown.has(place)))
    .map(branch => branchItem(branch, open));

  const input = element("input", { type: "search", autocomplete: "off", spellcheck: false, placeholder: "Search classes" });
  const select = element("select", {}, element("option", { value: "" }, "all configs"));
  select.append(...[...new Set(configOf)].sort().map(name => element("option", {}, name)));
  const count = element("output");
  const list = element("ul");
  const hidden = text => element("span", { className: "hidden" }, text);
  box.append(element("div", { className: "tools" },
    element("label", {}, hidden("Search classes by name, id, rule or evidence"), input),
    element("label", { className: "select" }, hidden("Config"), select), count), list);

  function show() {
    words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    config = select.value;
    shown = new Set([...data.classes.keys()].filter(place => {
      const leaf = data.classes[place];
      const there = !config || leaf.kept.some(inConfig) || leaf.left.some(inConfig);
      return there && words.every(word => texts[place].includes(word));
    }));
    count.textContent = words.length ? `${number(shown.size)} of ${number(data.classes.length)} classes` : "";
    list.replaceChildren(...items(data.trees, words.length > 0 && shown.size <= MOST_OPENED));
  }
  input.addEventListener("input", show);
  select.addEventListener("change", show);
  show();
});
