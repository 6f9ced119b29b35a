// One interface for the npm clients: @modelcontextprotocol/sdk (1.x, legacy era) and
// @modelcontextprotocol/client (2.x, both eras).

import { createRequire } from "node:module";
import { join } from "node:path";

export const [folder, make, errand, transport, era, ...target] = process.argv.slice(2);
const load = createRequire(join(folder, "package.json"));
export const MODERN = era === "modern";
const ROOTS = ["file:///crib/one", "file:///crib/two"];

function sdk() {
    if (make === "client") {
        const all = load("@modelcontextprotocol/client");
        const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");
        return { ...all, StdioClientTransport, key: (method) => method };
    }
    const types = load("@modelcontextprotocol/sdk/types.js");
    const schemas = {
        "sampling/createMessage": types.CreateMessageRequestSchema,
        "elicitation/create": types.ElicitRequestSchema,
        "roots/list": types.ListRootsRequestSchema,
        "notifications/message": types.LoggingMessageNotificationSchema,
    };
    return {
        ...load("@modelcontextprotocol/sdk/client/index.js"),
        ...load("@modelcontextprotocol/sdk/client/stdio.js"),
        ...load("@modelcontextprotocol/sdk/client/sse.js"),
        ...load("@modelcontextprotocol/sdk/client/streamableHttp.js"),
        key: (method) => schemas[method],
    };
}

const SDK = sdk();

class Book {
    asked = [];
    sampled = [];
    logged = [];
    notifications = [];
    requests = [];
    #waiting = [];

    tell(method, params) {
        this.notifications.push([method, params]);
        for (const wake of this.#waiting.splice(0)) wake();
    }

    async next(method, since) {
        for (;;) {
            const found = this.notifications.slice(since).find(([name]) => name === method);
            if (found) return found[1];
            await new Promise((wake) => this.#waiting.push(wake));
        }
    }

    answer(question) {
        this.asked.push(question);
        const { message, mode } = question;
        if (message === "decline" || message === "cancel") return { action: message };
        if (mode === "url") return { action: "accept" };
        return { action: "accept", content: message === "colour?" ? { colour: "red" } : { name: message.toUpperCase() } };
    }

    say(question) {
        this.sampled.push(question);
        const content = [question.messages[0].content].flat()[0];
        const answer = { type: "text", text: `echo of ${content.text}` };
        return { role: "assistant", content: answer, model: "m-1", stopReason: "endTurn" };
    }
}

function transportTo(book) {
    if (transport === "stdio") {
        return new SDK.StdioClientTransport({ command: target[0], args: target.slice(1), stderr: "inherit" });
    }
    if (transport === "sse") return new SDK.SSEClientTransport(new URL(target[0]));
    const noted = (url, init) => {
        const verb = init?.method ?? "GET";
        book.requests.push(new Headers(init?.headers).has("last-event-id") ? `${verb} again` : verb);
        return fetch(url, init);
    };
    return new SDK.StreamableHTTPClientTransport(new URL(target[0]), { fetch: noted });
}

// The 1.x SDK gives the negotiated version only to its transport.
function noteVersion(channel, book) {
    const tell = channel.setProtocolVersion?.bind(channel);
    channel.setProtocolVersion = (version) => {
        book.version = version;
        tell?.(version);
    };
}

export async function open({ handlers = true } = {}) {
    const book = new Book();
    const capabilities = handlers ? { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} } : {};
    const versionNegotiation = { mode: MODERN ? "auto" : "legacy" };
    const client = new SDK.Client({ name: "guest", version: "1.2.3" }, { capabilities, versionNegotiation });
    if (handlers) {
        client.setRequestHandler(SDK.key("sampling/createMessage"), async ({ params }) => book.say(params));
        client.setRequestHandler(SDK.key("elicitation/create"), async ({ params }) => book.answer(params));
        client.setRequestHandler(SDK.key("roots/list"), async () => ({ roots: ROOTS.map((uri) => ({ uri })) }));
    }
    client.setNotificationHandler(SDK.key("notifications/message"), async ({ params }) => {
        const { _meta, ...rest } = params;
        book.logged.push(rest);
    });
    client.fallbackNotificationHandler = async ({ method, params }) => book.tell(method, params ?? {});
    const channel = transportTo(book);
    if (make === "sdk") noteVersion(channel, book);
    await client.connect(channel);
    return new Guest(client, book);
}

class Guest {
    constructor(client, book) {
        Object.assign(this, { client, book });
    }

    hello() {
        const { client } = this;
        return {
            version: make === "client" ? client.getNegotiatedProtocolVersion() : this.book.version,
            server: client.getServerVersion(),
            instructions: client.getInstructions() ?? null,
            capabilities: client.getServerCapabilities(),
        };
    }

    page(kind, cursor) {
        const params = cursor === null ? {} : { cursor };
        if (make === "client") {
            // Its methods fetch all pages at once.
            const method = kind === "templates" ? "resources/templates/list" : `${kind}/list`;
            return this.client.request({ method, params });
        }
        const verb = { tools: "listTools", resources: "listResources", prompts: "listPrompts" }[kind];
        return this.client[verb ?? "listResourceTemplates"](params);
    }

    call(name, args = {}, onprogress = undefined, more = {}, options = {}) {
        const params = { name, arguments: args, ...more };
        const given = { ...options, ...(onprogress ? { onprogress } : {}) };
        return make === "client" ? this.client.callTool(params, given) : this.client.callTool(params, undefined, given);
    }

    async callAtLevel(level, name, args) {
        if (MODERN) return this.call(name, args, undefined, { _meta: { "io.modelcontextprotocol/logLevel": level } });
        await this.client.setLoggingLevel(level);
        return this.call(name, args);
    }

    async naps() {
        return (await this.call("nap_log")).structuredContent.result;
    }

    async untilOver(since) {
        for (;;) {
            const log = (await this.naps()).slice(since);
            if (log.length >= 2) return log;
        }
    }

    async news(uris, doing) {
        if (MODERN) {
            const listening = await this.client.listen({
                toolsListChanged: true,
                ...(uris.length ? { resourceSubscriptions: uris } : {}),
            });
            await doing();
            return listening.close();
        }
        for (const uri of uris) await this.client.subscribeResource({ uri });
        await doing();
        for (const uri of uris) await this.client.unsubscribeResource({ uri });
    }
}
