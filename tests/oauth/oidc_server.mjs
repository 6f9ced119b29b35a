// The identity provider oidc-provider, with a person who agrees to everything.
//
//     node oidc_server.mjs FOLDER_OF_NODE_MODULES PUBLIC_JWK_OF_THE_SIGNING_CLIENT
//
// Prints a JSON line with its issuer, and ends when its stdin ends. Access tokens for resources whose path ends with
// /opaque are opaque, all others are JWTs. GET /requests returns the requests that it answered.

import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, publicKey] = process.argv.slice(2);
const found = createRequire(join(folder, "package.json")).resolve("oidc-provider");
console.info = console.warn = () => {}; // notices about settings that are for production
const { Provider } = await import(pathToFileURL(found));

const SCOPES = "mcp:read mcp:write";
const secret = { client_secret: "a secret:+/%", redirect_uris: [], response_types: [] };
const signing = { token_endpoint_auth_method: "private_key_jwt", jwks: { keys: [JSON.parse(publicKey)] } };
const program = { grant_types: ["client_credentials"], redirect_uris: [], response_types: [] };

function privateKey(type, options, alg) {
    const { privateKey: key } = generateKeyPairSync(type, options);
    return { ...key.export({ format: "jwk" }), alg, use: "sig", kid: alg };
}

const configuration = {
    clients: [
        { client_id: "basic-program", ...secret, ...program },
        { client_id: "post-program", ...secret, ...program, token_endpoint_auth_method: "client_secret_post" },
        { client_id: "signing-program", ...program, ...signing, token_endpoint_auth_signing_alg: "ES256" },
        { client_id: "resource-server", ...secret, grant_types: [] },
    ],
    jwks: {
        keys: [privateKey("ec", { namedCurve: "P-256" }, "ES256"), privateKey("rsa", { modulusLength: 2048 }, "RS256")],
    },
    cookies: { keys: ["test"] },
    pkce: { required: () => true },
    scopes: ["openid", "offline_access", ...SCOPES.split(" ")],
    rotateRefreshToken: true,
    issueRefreshToken: async (_, client) => client.grantTypeAllowed("refresh_token"),
    expiresWithSession: async () => false,
    findAccount: async (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        introspection: { enabled: true, allowedPolicy: async () => true },
        registration: { enabled: true },
        revocation: { enabled: true, allowedPolicy: async (_, client, token) => token.clientId === client.clientId },
        resourceIndicators: {
            enabled: true,
            useGrantedResource: async () => false,
            getResourceServerInfo: async (_, resource) => ({
                scope: SCOPES,
                audience: resource,
                accessTokenTTL: 3600,
                accessTokenFormat: new URL(resource).pathname.endsWith("/opaque") ? "opaque" : "jwt",
                jwt: { sign: { alg: "ES256" } },
            }),
        },
    },
};

const server = createServer();
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, configuration);
const requests = [];

provider.use(async (ctx, next) => {
    if (ctx.path === "/requests") {
        ctx.body = requests;
        return;
    }
    if (ctx.path.startsWith("/interaction/")) {
        await agree(ctx);
        return;
    }
    await next();
    const params = ctx.oidc?.params ?? {};
    requests.push({ route: ctx.oidc?.route ?? ctx.path, status: ctx.status, params, error: ctx.body?.error_description });
});

// Signs the person in, and grants all that is asked for.
async function agree(ctx) {
    const { params } = await provider.interactionDetails(ctx.req, ctx.res);
    const grant = new provider.Grant({ accountId: "alice", clientId: params.client_id });
    grant.addOIDCScope(params.scope ?? "");
    if (params.resource) grant.addResourceScope(params.resource, params.scope ?? "");
    const result = { login: { accountId: "alice" }, consent: { grantId: await grant.save() } };
    ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, result));
}

server.on("request", provider.callback());
process.stdin.on("end", () => process.exit()).resume();
process.stdout.write(`${JSON.stringify({ issuer })}\n`);
