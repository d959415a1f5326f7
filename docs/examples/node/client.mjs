// Calls skills from another service over REST, over TLS, with an API key.
//
//     node client.mjs localhost:8000 --ca certs/ca.pem --token-file reports.key
//
// Needs Node.js 20 or newer, and no package.
// @ts-check

import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import https from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

/** How long a call may take, with all its tries. */
const DEADLINE_MS = 20_000;
/** Between tries, if the gateway does not say. */
const PAUSE_MS = 200;
/** The connection was not made, or broke. The idempotency key makes it safe to call the same gateway again. */
const BROKEN = ["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT"];

/** A gateway. One for the whole program: its connections are kept. */
class Gateway {
  /** @param {string} address @param {string} ca @param {string} tokenFile */
  constructor(address, ca, tokenFile) {
    this.url = `https://${address}`;
    this.agent = new https.Agent({ ca: readFileSync(ca), keepAlive: true });
    this.token = readFileSync(tokenFile, "utf8").trim();
  }

  /**
   * Sends a request, and resolves with the head of its answer.
   * @param {string} path @param {object} body @param {Record<string, string>} headers @param {AbortSignal} signal
   * @returns {Promise<import("node:http").IncomingMessage>}
   */
  post(path, body, headers, signal) {
    return new Promise((resolve, reject) => {
      const options = {
        method: "POST",
        agent: this.agent,
        signal,
        headers: { "content-type": "application/json", authorization: `Bearer ${this.token}`, ...headers },
      };
      https.request(this.url + path, options, resolve).on("error", reject).end(JSON.stringify(body));
    });
  }

  /**
   * Calls a skill. Retries until the deadline, if the gateway says that a retry may succeed.
   * @param {string} skill @param {object} input @param {string} traceparent
   */
  async invoke(skill, input, traceparent) {
    const ends = performance.now() + DEADLINE_MS;
    const headers = { traceparent, "idempotency-key": randomUUID() };
    for (;;) {
      const left = Math.floor(ends - performance.now());
      const tried = await this.try(`/skills/${skill}:invoke`, { input, timeout_ms: left }, headers, left);
      if (tried.result) return tried.result;
      // Up to half as long again, at random, so that callers do not retry at the same time.
      const pause = tried.pause * (1 + Math.random() / 2);
      if (performance.now() + pause >= ends) throw tried.error;
      await sleep(pause);
    }
  }

  /**
   * Calls once. Returns a result, or an error after which the call may be retried, and the pause before that.
   * @param {string} path @param {object} body @param {Record<string, string>} headers @param {number} left
   */
  async try(path, body, headers, left) {
    let answer, text;
    try {
      answer = await this.post(path, body, headers, AbortSignal.timeout(left));
      text = await read(answer);
    } catch (error) {
      if (BROKEN.includes(error.code)) return { error, pause: PAUSE_MS };
      throw error;
    }
    // A proxy on the way answers for a gateway that it can't reach.
    if (!answer.headers["content-type"]?.startsWith("application/json")) {
      const error = new Error(`HTTP ${answer.statusCode}: ${text}`);
      if ([502, 503, 504].includes(answer.statusCode ?? 0)) return { error, pause: PAUSE_MS };
      throw error;
    }
    const result = JSON.parse(text);
    if (result.success) return { result, pause: 0 };
    const error = new Error(`${result.error.code}: ${result.error.message}`);
    if (!result.error.retryable) throw error;
    return { error, pause: result.error.retry_after_ms || PAUSE_MS };
  }
}

/** @param {import("node:http").IncomingMessage} answer */
async function read(answer) {
  let text = "";
  for await (const part of answer.setEncoding("utf8")) text += part;
  return text;
}

/** The trace that calls belong to. A service has one already: pass on that of the request it is working for. */
function newTrace() {
  return `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-01`;
}

/** @param {Gateway} gateway */
async function callOne(gateway) {
  const result = await gateway.invoke("echo", { text: "hello" }, newTrace());
  console.log("called:", result.data.echoed, "in trace", result.trace_id);
}

/** Several calls at once, each on a connection of its own. @param {Gateway} gateway */
async function callMany(gateway) {
  const trace = newTrace();
  const calls = [0, 1, 2].map((number) => gateway.invoke("echo", { text: `text ${number}` }, trace));
  for (const result of await Promise.all(calls)) console.log("one of many:", result.data.echoed);
}

/**
 * A call that nobody waits for any more. The gateway ends the skill's process too.
 * @param {Gateway} gateway @param {string} skill
 */
async function cancel(gateway, skill) {
  const cancelled = new AbortController();
  const signal = AbortSignal.any([cancelled.signal, AbortSignal.timeout(DEADLINE_MS)]);
  const events = await gateway.post(`/skills/${skill}:stream`, { input: {} }, {}, signal);
  if (events.statusCode !== 200) throw new Error(await read(events));
  let text = "";
  try {
    for await (const part of events.setEncoding("utf8")) {
      text += part;
      // A call that fails at once has time to report it.
      if (text.includes("event: accepted")) setTimeout(() => cancelled.abort(), PAUSE_MS);
    }
  } catch (error) {
    if (!cancelled.signal.aborted) throw error;
    return console.log("cancelled:", skill);
  }
  throw new Error(`the call ended before it was cancelled: ${text}`);
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { ca: { type: "string" }, "token-file": { type: "string" }, slow: { type: "string" } },
});
if (positionals.length !== 1 || !values.ca || !values["token-file"]) {
  console.error("usage: node client.mjs HOST:PORT --ca FILE --token-file FILE [--slow SKILL]");
  process.exit(2);
}
const gateway = new Gateway(positionals[0], values.ca, values["token-file"]);
await callOne(gateway);
await callMany(gateway);
if (values.slow) await cancel(gateway, values.slow);
gateway.agent.destroy();
