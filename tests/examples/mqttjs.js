// MQTT.js (the browser's bundle) in Node.js: node --experimental-websocket mqttjs.js PORT VERSION
// Prints one line of JSON for each message that its reader is given, and "done" when all were acknowledged.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const bundle = path.join(__dirname, "..", "..", "examples", "browser", "mqtt.min.js");
Object.assign(globalThis, {window: globalThis, document: {}});  // by these the bundle knows a browser
globalThis.navigator ??= {userAgent: "node"};
vm.runInThisContext(fs.readFileSync(bundle, "utf-8"), {filename: bundle});
globalThis.mqtt = vm.runInThisContext("mqtt");

const [port, version] = process.argv.slice(2).map(Number);
const options = {protocolVersion: version, timerVariant: "native", clean: true};
const url = `ws://127.0.0.1:${port}`;
const say = value => process.stdout.write(JSON.stringify(value) + "\n");

async function main() {
  const writer = await mqtt.connectAsync(url, {...options, clientId: "writer"});
  await writer.publishAsync("js/kept", "kept", {qos: 1, retain: true});
  const reader = await mqtt.connectAsync(url, {...options, clientId: "reader"});
  const will = {topic: "js/will", payload: "gone", qos: 1};
  const dying = await mqtt.connectAsync(url, {...options, clientId: "dying", will, reconnectPeriod: 0});
  let count = 0;
  const all = new Promise(resolve => reader.on("message", (topic, payload, packet) => {
    say([topic, new TextDecoder().decode(payload), packet.qos, packet.retain, packet.properties?.userProperties ?? null]);
    if (++count === 8) resolve();
  }));
  await reader.subscribeAsync("js/#", {qos: 2});
  for (const qos of [0, 1, 2]) {
    const properties = version === 5 ? {userProperties: {lang: "en"}} : undefined;
    await writer.publishAsync(`js/${qos}/a`, `question ${qos}`, {qos, properties});
    await writer.publishAsync(`js/${qos}/b`, `answer ${qos}`, {qos});
  }
  dying.stream.destroy();
  await all;
  say("done");
  for (const client of [writer, reader, dying]) client.end(true);
}

main().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
