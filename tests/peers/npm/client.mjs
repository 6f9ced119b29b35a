// The tour of the npm clients at our server: the same errands and report as in tests/peers/clients/tour.py,
// printed as the last line.
//
//     node client.mjs FOLDER_OF_NODE_MODULES sdk|client ERRAND stdio|http|sse legacy|modern URL|COMMAND...

import { MODERN, errand, open, transport } from "./guest.mjs";

const WITHIN = 30_000; // milliseconds for one scene
const COUNTER = "crib://counter";
const UPDATED = "notifications/resources/updated";
const TOOLS_CHANGED = "notifications/tools/list_changed";

const textOf = (result) =>
    result.content
        .filter((block) => block.type === "text")
        .map((block) => block.text)
        .join("\n");

async function refusal(doing) {
    try {
        return { instead: await doing };
    } catch (error) {
        if (typeof error.code !== "number") throw error;
        return { code: error.code, message: error.message.replace(/^MCP error -?\d+: /, ""), data: error.data ?? null };
    }
}

async function pages(guest, kind) {
    const found = [];
    for (let cursor = null; ; ) {
        const page = await guest.page(kind, cursor);
        found.push(page[kind === "templates" ? "resourceTemplates" : kind]);
        if (page.nextCursor === undefined) return found;
        cursor = page.nextCursor;
    }
}

const names = async (guest) => (await pages(guest, "tools")).flat().map((tool) => tool.name);

async function stepsOf(guest, name, args) {
    const steps = [];
    const text = textOf(await guest.call(name, args, ({ progress }) => steps.push(progress)));
    return { text, steps };
}

const EXPLAIN = { type: "ref/prompt", name: "explain" };

const SCENES = {
    hello: async (guest) => guest.hello(),

    async tools(guest) {
        const found = await pages(guest, "tools");
        const listed = Object.fromEntries(found.flat().map((tool) => [tool.name, tool]));
        return { pages: found.map((page) => page.map((tool) => tool.name)), add: listed.add, echo: listed.echo };
    },

    bad_cursor: (guest) => refusal(guest.page("tools", "no such page")),

    results: async (guest) => ({
        add: await guest.call("add", { a: 2, b: 40 }),
        echo: await guest.call("echo", { text: "grüße, 庭\nsecond line" }),
        forecast: await guest.call("forecast", { city: "Bonn" }),
        numbers: await guest.call("numbers", { count: 3 }),
        showcase: await guest.call("showcase"),
    }),

    failures: async (guest) => ({
        fail: await guest.call("fail", { message: "boom" }),
        wrong: await guest.call("add", { a: "x", b: 1 }),
        missing: await guest.call("add", { a: 1 }),
        unknown: await refusal(guest.call("forecst", { city: "Bonn" })),
    }),

    async progress(guest) {
        const seen = [];
        const note = ({ progress, total, message }) => seen.push([progress, total, message]);
        const result = await guest.call("count", { steps: 3 }, note);
        return [...seen, textOf(result)];
    },

    async logs(guest) {
        const before = guest.book.logged.length;
        await guest.callAtLevel("warning", "chatter", { words: ["a", "b", "c", "d"] });
        return guest.book.logged.slice(before);
    },

    async questions(guest) {
        const { book } = guest;
        const seen = { sampled: textOf(await guest.call("ask_model", { prompt: "what is it?" })) };
        seen.sampling = book.sampled.at(-1);
        seen.accepted = textOf(await guest.call("ask_user", { question: "who?" }));
        seen.asking = book.asked.at(-1);
        seen.declined = textOf(await guest.call("ask_user", { question: "decline" }));
        seen.cancelled = textOf(await guest.call("ask_user", { question: "cancel" }));
        seen.interview = textOf(await guest.call("interview"));
        seen.interviewed = book.asked.slice(-2).map((question) => question.message);
        seen.roots = (await guest.call("roots")).structuredContent;
        return seen;
    },

    async crowd(guest) {
        const adding = Array.from({ length: 16 }, (_, n) => guest.call("add", { a: n, b: 1 }));
        const asking = Array.from({ length: 8 }, (_, n) => guest.call("ask_user", { question: `n${n}` }));
        const found = (await Promise.all([...adding, ...asking])).map(textOf);
        return { sums: found.slice(0, 16), answers: found.slice(16) };
    },

    resources: async (guest) => ({
        listed: (await pages(guest, "resources")).flat(),
        templates: (await pages(guest, "templates")).flat(),
        greeting: await guest.client.readResource({ uri: "crib://greeting" }),
        logo: await guest.client.readResource({ uri: "crib://logo" }),
        plot: await guest.client.readResource({ uri: "crib://plot/rose%20bed" }),
        unknown: await refusal(guest.client.readResource({ uri: "crib://nowhere" })),
    }),

    prompts: async (guest) => ({
        listed: (await pages(guest, "prompts")).flat(),
        explain: await guest.client.getPrompt({ name: "explain", arguments: { topic: "bees" } }),
        missing: await refusal(guest.client.getPrompt({ name: "explain", arguments: {} })),
        unknown: await refusal(guest.client.getPrompt({ name: "explian", arguments: { topic: "bees" } })),
    }),

    async completion(guest) {
        const context = { arguments: { topic: "bees" } };
        return {
            topic: await guest.client.complete({ ref: EXPLAIN, argument: { name: "topic", value: "ap" } }),
            tone: await guest.client.complete({ ref: EXPLAIN, argument: { name: "tone", value: "k" }, context }),
        };
    },

    async news(guest) {
        const { book } = guest;
        const seen = {};
        let since = 0;
        const notified = async (tool, method) => {
            since = book.notifications.length;
            await guest.call(tool);
            return book.next(method, since);
        };
        await guest.news([COUNTER], async () => {
            seen.updated = (await notified("touch", UPDATED)).uri;
            await notified("grow", TOOLS_CHANGED);
            seen.grown = (await names(guest)).includes("bloom");
            await notified("cut", TOOLS_CHANGED);
            seen.cut = !(await names(guest)).includes("bloom");
        });
        await guest.news([], async () => {
            const before = book.notifications.length;
            await guest.call("touch");
            await notified("grow", TOOLS_CHANGED);
            seen.without_subscription = [...new Set(book.notifications.slice(before).map(([method]) => method))].sort();
            await guest.call("cut");
        });
        return seen;
    },

    async detached(guest) {
        if (transport !== "http" || MODERN) return null;
        const before = guest.book.requests.length;
        const found = await stepsOf(guest, "detach", {});
        return { ...found, requests: guest.book.requests.slice(before) };
    },

    async given_up(guest) {
        const since = (await guest.naps()).length;
        const stop = new AbortController();
        const call = guest.call("nap", { seconds: 60 }, () => stop.abort("changed my mind"), {}, { signal: stop.signal });
        await call.catch(() => null);
        return guest.untilOver(since);
    },

    async after_giving_up(guest) {
        if (transport !== "http" || MODERN) return null;
        const before = guest.book.requests.length;
        for (let n = 0; n < 3; n += 1) await guest.call("detach");
        return guest.book.requests.slice(before).filter((request) => request === "GET again").length - 3;
    },

    ping: async (guest) => (MODERN ? null : guest.client.ping()), // in the modern era this SDK does not send it

    async ours_only(guest) {
        const seen = { page: textOf(await guest.call("ask_page", { url: "https://crib.example/sign?a=1" })) };
        seen.asking = guest.book.asked.at(-1);
        seen.refused = await refusal(guest.call("refuse"));
        seen.nothing = await guest.call("nothing");
        seen.picture = await guest.call("picture");
        seen.who = (await guest.call("who")).structuredContent;
        seen.shipped = (await guest.call("ship", { region: "grüße", weight: 7 })).structuredContent;
        for (const [key, name] of Object.entries({ thread: "count_in_a_thread", march: "march" })) {
            const { steps, text } = await stepsOf(guest, name, { steps: 3 });
            seen[key] = [...steps, text];
        }
        return seen;
    },
};

async function within(doing) {
    let timer;
    const late = new Promise((_, fail) => {
        timer = setTimeout(() => fail(new Error("not in time")), WITHIN);
    });
    return Promise.race([doing, late]).finally(() => clearTimeout(timer));
}

// Print a line for the test that started this program, and wait for its reply.
function say(word) {
    console.log(word);
    return new Promise((done) => process.stdin.once("data", done));
}

// One guest disconnects during a call; another one checks how that call ended.
async function leaving(go, seconds = MODERN ? 60 : 1) {
    const [witness, guest] = [await open(), await open()];
    const since = (await witness.naps()).length;
    await guest.call("nap", { seconds }, () => go(guest)).catch(() => null);
    const naps = await witness.untilOver(since);
    await witness.client.close();
    return { naps };
}

const ERRANDS = {
    async tour() {
        const guest = await open();
        const seen = {};
        for (const [name, scene] of Object.entries(SCENES)) {
            try {
                seen[name] = await within(scene(guest));
            } catch (error) {
                seen[name] = { raised: error.stack };
            }
        }
        await guest.client.close();
        return seen;
    },

    async bare() {
        const guest = await open({ handlers: false });
        const seen = {};
        const asking = { ask_model: { prompt: "?" }, ask_user: { question: "who?" }, roots: {} };
        for (const [name, args] of Object.entries(asking)) {
            const { instead, ...refused } = await refusal(guest.call(name, args));
            seen[name] = instead ?? { refused };
        }
        seen.after = textOf(await guest.call("echo", { text: "still here" }));
        await guest.client.close();
        return seen;
    },

    async hear() {
        const guest = await open();
        const { book } = guest;
        const seen = {};
        await guest.news([], async () => {
            await guest.call("grow");
            await book.next(TOOLS_CHANGED, 0);
            const [since, before] = [book.notifications.length, book.requests.length];
            await say("listening");
            await guest.naps().catch(() => null); // it may get a dead connection
            await guest.call("cut");
            await book.next(TOOLS_CHANGED, since);
            seen.notified = book.notifications.slice(since).map(([method]) => method);
            seen.requests = book.requests.slice(before);
        });
        return seen;
    },

    async sleep() {
        const guest = await open();
        const since = (await guest.naps()).length;
        const stop = new AbortController();
        let settled;
        await new Promise((cut) => {
            const onprogress = () => say("asleep").then(cut);
            const call = guest.call("nap", { seconds: MODERN ? 60 : 1 }, onprogress, {}, { signal: stop.signal });
            settled = call.catch((error) => ({ raised: String(error) }));
        });
        await guest.naps().catch(() => null); // it may get a dead connection
        const naps = await guest.untilOver(since);
        // In the modern era this SDK does not report a cut stream to the caller.
        if (MODERN) stop.abort("cut");
        const result = await within(settled);
        await guest.client.close();
        return { result, naps, requests: guest.book.requests };
    },

    leave: () => leaving((guest) => guest.client.close()),

    part: () =>
        leaving(async (guest) => {
            await guest.client.transport.terminateSession();
            await guest.client.close();
        }, 60),
};

console.log(JSON.stringify(await ERRANDS[errand]().catch((error) => ({ raised: error.stack }))));
process.exit(0); // whatever streams the SDK still holds
