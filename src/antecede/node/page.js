"use strict";
// Everything shown is set as text, never as markup: names and reasons come from others.
const KEPT = 120, rates = [];
let before = null;
const at = id => document.getElementById(id);
const number = value => value.toLocaleString("en", {maximumFractionDigits: value < 10 ? 1 : 0});

function make(name, attributes, text) {
  const svg = ["line", "circle", "text", "polyline"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function tiles(status) {
  const held = status.counts.held;
  const mean = held ? (status.counts.held_us / held / 1000).toFixed(2) + " ms each" : "";
  const shown = [
    [number(status.position), "delivered"],
    [rates.length ? number(rates.at(-1)) : "–", "a second"],
    [number(status.held), "held now"],
    [number(held), "were held " + mean],
    [number(status.counts.published), "published here"],
    [number(status.clients), "clients, " + status.feeds + " feeds"],
    [number(status.lag_max), "lag of the last feed"],
  ];
  at("tiles").replaceChildren(...shown.map(([figure, words]) => {
    const tile = make("div", {class: "tile"});
    tile.append(make("b", {}, figure), make("span", {}, words));
    return tile;
  }));
}

function cube(status) {
  const members = status.members, count = Math.max(members.length, 1), spots = new Map();
  members.forEach((member, index) => {
    const angle = 2 * Math.PI * index / count - Math.PI / 2;
    spots.set(member.node, [200 + 135 * Math.cos(angle), 160 + 135 * Math.sin(angle)]);
  });
  const line = (one, other, kind) => {
    const [x1, y1] = spots.get(one), [x2, y2] = spots.get(other);
    return make("line", {x1, y1, x2, y2, class: kind});
  };
  const drawn = [];
  for (const one of spots.keys())
    for (let bit = 1; bit < status.slots; bit *= 2)
      if (one < (one ^ bit) && spots.has(one ^ bit)) drawn.push(line(one, one ^ bit, "edge"));
  for (const child of status.children) if (spots.has(child)) drawn.push(line(status.node, child, "branch"));
  for (const member of members) {
    const [cx, cy] = spots.get(member.node);
    drawn.push(make("circle", {cx, cy, r: 15, class: "node " + member.state}), make("text", {x: cx, y: cy}, member.node));
  }
  at("cube").replaceChildren(...drawn);
}

function curve() {
  const top = Math.max(1, ...rates), step = 400 / KEPT;
  const points = rates.map((rate, index) => [(KEPT - rates.length + index + 1) * step, 180 - 150 * rate / top]);
  at("rates").replaceChildren(
    make("line", {x1: 0, x2: 400, y1: 180, y2: 180, class: "axis"}),
    make("text", {x: 0, y: 12, class: "label"}, number(top) + " at most"),
    make("polyline", {points: points.map(point => point.join()).join(" "), class: "rate"}));
}

function table(id, titles, rows) {
  const cells = (kind, row) => {
    const line = make("tr");
    line.append(...row.map(cell => make(kind, {class: cell.kind || ""}, cell.text ?? cell)));
    return line;
  };
  at(id).replaceChildren(cells("th", titles), ...rows.map(row => cells("td", row)));
}

function show(status) {
  const now = performance.now();
  if (before !== null && before.incarnation === status.incarnation)
    rates.push(Math.max(0, (status.position - before.position) / (now - before.now) * 1000));
  before = {position: status.position, incarnation: status.incarnation, now};
  if (rates.length > KEPT) rates.shift();
  document.title = status.name + " · antecede";
  at("title").textContent = "Node " + status.node + " (" + status.name + ")";
  at("about").textContent = "of cluster " + status.cluster + ", " + status.url + ", up for " + number(status.uptime_s)
    + " s, started " + Math.max(1, status.incarnation) + (status.incarnation > 1 ? " times" : " time");
  at("problems").replaceChildren(...status.problems.map(problem => make("li", {}, problem)));
  tiles(status); cube(status); curve();
  table("members", ["slot", "name", "address", "state", {text: "last delivered", kind: "number"}],
    status.members.map(member => [member.node, member.name, member.address, {text: member.state, kind: member.state},
      {text: number(status.delivered[member.node] || 0), kind: "number"}]));
  at("partitions-title").hidden = !status.partitions.length;
  const figure = text => ({text, kind: "number"});
  table("partitions", !status.partitions.length ? [] : ["partition", "taken because", "homes", "members",
      ...["delivered", "bytes", "published", "published bytes", "lacking here", "homes behind"].map(figure)],
    status.partitions.map(one => [one.partition, one.why.join(", ") || "not taken: publishes", one.homes.join(", "),
      one.members.join(", "), ...[one.delivered, one.bytes, one.published, one.published_bytes, one.lacking,
        Object.values(one.lag).reduce((sum, lag) => sum + lag, 0)].map(count => figure(number(count)))]));
  const refused = Object.entries(status.refused);
  at("refused-title").hidden = !refused.length;
  table("refused", refused.length ? ["reason", "times"] : [], refused);
}

async function look() {
  try {
    const answer = await fetch("status", {cache: "no-store", signal: AbortSignal.timeout(3000)});
    show(await answer.json());
    at("trouble").textContent = "";
  } catch (error) {
    at("trouble").textContent = "The node does not answer. What is shown is how it was.";
  }
  setTimeout(look, 1000);
}
look();
