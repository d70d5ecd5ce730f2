"use strict";
// A chat over MQTT: questions on chat/questions, answers on chat/answers. Run it with
//
//     antecede node --http-port 9400 --ws-port 9401 --http-files examples/browser
//
// and open http://127.0.0.1:9400/app/ in three tabs. Messages are shown in the order in which they come. An answer
// whose question has not come yet would be marked as early; with causal order there is none.
const QUESTIONS = "chat/questions", ANSWERS = "chat/answers", SHOWN_MAX = 200;
const at = id => document.getElementById(id);
const seen = new Set();
let client = null;

function show(kind, name, text) {
  const item = document.createElement("li"), by = document.createElement("b");
  item.className = kind;
  by.textContent = name;
  item.append(by, text);
  at("messages").append(item);
  while (at("messages").children.length > SHOWN_MAX) at("messages").firstChild.remove();
  item.scrollIntoView({block: "nearest"});
  return item;
}

function showQuestion(message) {
  seen.add(message.id);
  const item = show("question", message.name, message.text), form = document.createElement("form");
  const input = document.createElement("input"), button = document.createElement("button");
  input.maxLength = 500;
  input.required = true;
  input.setAttribute("aria-label", "your answer");
  button.textContent = "Answer";
  form.append(input, button);
  form.addEventListener("submit", event => {
    event.preventDefault();
    publish(ANSWERS, {name: at("name").value, text: input.value, question: message.id});
    input.value = "";
  });
  item.append(form);
}

function take(topic, payload) {
  let message;
  try { message = JSON.parse(new TextDecoder().decode(payload)); } catch { return; }  // not ours
  if (topic === QUESTIONS) showQuestion(message);
  else show(seen.has(message.question) ? "answer" : "answer early", message.name, message.text);
}

function publish(topic, message) {
  client.publish(topic, JSON.stringify(message), {qos: 1}, error => {
    if (error) at("state").textContent = "could not publish: " + error.message;
  });
}

async function join() {
  const ports = await (await fetch("../ports")).json();
  if (!ports.ws_port) {
    at("state").textContent = "the node serves no WebSocket; start it with --ws-port";
    return;
  }
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  if (client) client.end(true);
  client = mqtt.connect(`${scheme}://${location.hostname}:${ports.ws_port}`, {
    protocolVersion: 5, username: at("name").value, password: at("token").value || undefined, timerVariant: "native",
  });
  client.on("connect", () => {
    client.subscribe([QUESTIONS, ANSWERS], {qos: 1}, error => {
      at("state").textContent = error ? "may not read: " + error.message : "connected as " + at("name").value;
      at("ask").hidden = Boolean(error);
    });
  });
  client.on("message", take);
  client.on("error", error => { at("state").textContent = error.message; });
  client.on("close", () => { at("state").textContent = "not connected; trying again"; });
}

at("join").addEventListener("submit", event => { event.preventDefault(); join(); });
at("ask").addEventListener("submit", event => {
  event.preventDefault();
  publish(QUESTIONS, {name: at("name").value, text: at("question").value, id: crypto.randomUUID()});
  at("question").value = "";
});
