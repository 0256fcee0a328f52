"use strict";
// The tree of classes: what is said of a class is written when it is opened, and the tree is searched and seen by config.
addEventListener("DOMContentLoaded", () => {
  const tree = document.getElementById("tree");
  const data = JSON.parse(document.getElementById("class-data").textContent);
  const configOf = data.splits.map(split => split.split("/")[0]);
  const number = value => value.toLocaleString("en");
  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  const leaves = [...tree.querySelectorAll("[data-leaf]")].map(item => {
    const [kept, left] = data.classes[Number(item.dataset.leaf)];
    const why = new Set(left.flatMap(([, rule, evidence]) => [data.rules[rule], data.evidence[evidence]]));
    const text = [item.textContent, ...why].join(" ").toLowerCase();
    return { item, kept, left, text, chips: item.querySelector(".chips") };
  });
  const branches = [...tree.querySelectorAll("details")].filter(found => !found.parentElement.dataset.leaf).reverse();
  const opened = new Map(branches.map(branch => [branch, branch.open]));

  let config = "";
  const inConfig = ([split]) => !config || configOf[split] === config;

  // What several splits say alike is said once.
  function grouped(lines, keyOf) {
    const found = new Map();
    for (const line of lines) {
      const key = keyOf(line);
      found.set(key, [...(found.get(key) ?? []), line]);
    }
    return [...found.values()];
  }

  function write(leaf) {
    const list = element("dl");
    for (const lines of grouped(leaf.kept.filter(inConfig), line => line[1])) {
      list.append(element("dt", {}, `Rows, ${data.roles[lines[0][1]][1]}`));
      list.append(element("dd", {}, lines.map(([split, , rows]) => `${data.splits[split]} ${number(rows)}`).join(", ")));
    }
    for (const lines of grouped(leaf.left.filter(inConfig), line => `${line[1]} ${line[2]}`)) {
      const [, rule, evidence] = lines[0];
      list.append(element("dt", {}, `Left out: ${data.rules[rule]}`));
      list.append(element("dd", {}, data.evidence[evidence]));
      list.append(element("dd", {}, lines.map(([split, , , images]) => `${data.splits[split]} ${number(images)}`).join(", ")));
    }
    const details = leaf.item.querySelector("details");
    details.querySelector("dl")?.remove();
    details.append(list);
  }

  function writeChips(leaf) {
    const roles = [...new Set(leaf.kept.filter(inConfig).map(line => line[1]))].sort((a, b) => a - b);
    const chips = roles.map(role => element("span", { className: `chip ${data.roles[role][0]}` }, data.roles[role][1]));
    leaf.chips.replaceChildren(...(chips.length ? chips : [element("span", { className: "chip out" }, "left out")]));
  }

  const input = element("input", { type: "search", autocomplete: "off", spellcheck: false, placeholder: "Search classes" });
  const select = element("select", {}, element("option", { value: "" }, "all configs"));
  select.append(...[...new Set(configOf)].sort().map(name => element("option", {}, name)));
  const count = element("output");
  const hidden = text => element("span", { className: "hidden" }, text);
  tree.prepend(element("div", { className: "tools" },
    element("label", {}, hidden("Search classes by name, id, rule or evidence"), input),
    element("label", { style: "flex: none" }, hidden("Config"), select), count));

  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const leaf of leaves) {
      const there = leaf.kept.some(inConfig) || leaf.left.some(inConfig);
      const matches = there && words.every(word => leaf.text.includes(word));
      found += matches;
      leaf.item.hidden = !matches;
    }
    for (const branch of branches) {
      const below = [...branch.querySelectorAll("[data-leaf]:not([hidden])")];
      const kept = below.filter(item => !item.querySelector(".chip.out")).length;
      branch.parentElement.hidden = !below.length;
      branch.querySelector(".count").textContent = `${number(kept)} of ${number(below.length)}`;
      branch.open = words.length ? below.length > 0 : opened.get(branch);
    }
    count.textContent = words.length ? `${number(found)} of ${number(leaves.length)} classes` : "";
  }

  input.addEventListener("input", show);
  select.addEventListener("change", () => {
    config = select.value;
    for (const leaf of leaves) {
      writeChips(leaf);
      if (leaf.item.querySelector("dl")) write(leaf);
    }
    show();
  });
  for (const leaf of leaves) {
    leaf.item.querySelector("details").addEventListener("toggle", event => { if (event.target.open) write(leaf); });
  }
});
