"use strict";
// Shows what a stream of server-sent events brings. Everything is set as text, never as markup: it comes from others.
const TOPICS_MAX = 200, MESSAGES_MAX = 50, CHARACTERS_MAX = 200, SECONDS = 10;
const at = id => document.getElementById(id);
let source = null, topics = new Map(), messages = [], dirty = false, gaps = 0;

function make(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}

function row(name, cells) {
  const made = document.createElement("tr");
  made.append(...cells.map(([text, kind]) => make(name, kind, text)));
  return made;
}

function value(message) {
  const text = "json" in message ? JSON.stringify(message.json) : message.text ?? message.base64;
  return text.length > CHARACTERS_MAX ? text.slice(0, CHARACTERS_MAX) + "…" : text;
}

function take(event) {
  const message = JSON.parse(event.data), second = Math.floor(performance.now() / 1000);
  const topic = topics.get(message.topic) || {count: 0, seconds: new Map()};
  topics.delete(message.topic);  // the topic with the newest message is the last one of the map
  topics.set(message.topic, topic);
  topic.count += 1;
  topic.seconds.set(second, (topic.seconds.get(second) || 0) + 1);
  if (topic.seconds.size > SECONDS) topic.seconds.delete(topic.seconds.keys().next().value);
  topic.last = value(message);
  if (topics.size > TOPICS_MAX) topics.delete(topics.keys().next().value);
  messages.push(message);
  if (messages.length > MESSAGES_MAX) messages.shift();
  dirty = true;
}

function rate(seconds) {
  const now = Math.floor(performance.now() / 1000);
  const recent = [...seconds].filter(([second]) => now - second < SECONDS).map(([, count]) => count);
  return (recent.reduce((sum, count) => sum + count, 0) / SECONDS).toFixed(1);
}

function draw() {
  const head = row("th", [["topic"], ["messages", "number"], ["a second", "number"], ["last value"]]);
  at("topics").replaceChildren(head, ...[...topics].sort(([one], [other]) => one < other ? -1 : 1).map(([name, topic]) =>
    row("td", [[name], [topic.count, "number"], [rate(topic.seconds), "number"], [topic.last, "value"]])));
  const titles = row("th", [["id"], ["topic"], ["value"], ["follows"]]);
  at("messages").replaceChildren(titles, ...messages.toReversed().map(message =>
    row("td", [[message.id], [message.topic], [value(message), "value"], [(message.after || []).join(" ")]])));
}

function read() {
  if (source) source.close();
  topics = new Map();
  messages = [];
  gaps = 0;
  dirty = true;
  at("trouble").textContent = "";
  const filters = at("filters").value.split(/\s+/).filter(Boolean);
  source = new EventSource("topics?" + filters.map(one => "filter=" + encodeURIComponent(one)).join("&"));
  source.onopen = () => { at("state").textContent = "reading " + filters.join(" "); };
  source.onmessage = take;
  source.onerror = () => {
    const over = source.readyState === EventSource.CLOSED;
    at("state").textContent = over
      ? "the node refused this stream: a filter is wrong, your token may not read it, or there are too many clients"
      : "the node does not answer; trying again";
  };
  source.addEventListener("gap", event => {
    gaps += 1;
    at("trouble").textContent = gaps + " gaps, the last one: " + JSON.parse(event.data).problem;
  });
  source.addEventListener("ended", event => { at("state").textContent = JSON.parse(event.data).problem; });
}

at("ask").addEventListener("submit", event => { event.preventDefault(); read(); });
setInterval(() => { if (dirty || topics.size) draw(); dirty = false; }, 500);
read();
