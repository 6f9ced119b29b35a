"""The scenarios that our client must pass, and for each what it must have called, got and done there."""

from __future__ import annotations

from typing import Any, Final

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
OLDEST: Final = "2025-03-26"

Report = dict[str, Any]

# ---- what the client has to report --------------------------------------------------------------------------------

AUTHORISED: Report = {"tools": ["test-tool"], "calls": [["test-tool", "test"]], "authorised": 1}
REFUSED: Report = {"calls": [], "error": {"type": "AuthError", "status": 401}}

BOTH_ERAS: dict[str, Report] = {
    "tools_call": {"calls": [["add_numbers", "The sum of 5 and 3 is 8"]]},
    "json-schema-2020-12-preservation": {"calls": [["json_schema_echo", "echoed"]]},
    "auth/metadata-default": AUTHORISED,
    "auth/metadata-var1": AUTHORISED,
    "auth/metadata-var2": AUTHORISED,
    "auth/metadata-var3": AUTHORISED,
    "auth/basic-cimd": AUTHORISED,
    "auth/scope-from-www-authenticate": AUTHORISED,
    "auth/scope-from-scopes-supported": AUTHORISED,
    "auth/scope-omitted-when-undefined": AUTHORISED,
    "auth/scope-step-up": AUTHORISED | {"authorised": 2},
    "auth/scope-retry-limit": {"calls": [], "error": {"type": "AuthError", "status": 403}},
    "auth/token-endpoint-auth-basic": AUTHORISED,
    "auth/token-endpoint-auth-post": AUTHORISED,
    "auth/token-endpoint-auth-none": AUTHORISED,
    "auth/pre-registration": AUTHORISED,
}

ONLY_LEGACY: dict[str, Report] = {
    "initialize": {"server": "test-server", "tools": [], "calls": []},
    "elicitation-sep1034-client-defaults": {
        "asked": ["Test client default value handling - please accept with defaults"],
        "calls": [
            [
                "test_client_elicitation_defaults",
                'Elicitation completed: {"name":"John Doe","age":30,"score":95.5,"status":"active","verified":true}',
            ]
        ],
    },
    "sse-retry": {"calls": [["test_reconnection", "Reconnection test completed successfully"]]},
}

ONLY_MODERN: dict[str, Report] = {
    "request-metadata": {"tools": [], "calls": []},
    "auth/resource-mismatch": REFUSED | {"authorised": 0},
    "auth/offline-access-scope": AUTHORISED,
    "auth/offline-access-not-supported": AUTHORISED,
    "auth/authorization-server-migration": AUTHORISED | {"authorised": 2},
    "auth/iss-supported": AUTHORISED,
    "auth/iss-not-advertised": AUTHORISED,
    "auth/iss-supported-missing": REFUSED | {"authorised": 1},
    "auth/iss-wrong-issuer": REFUSED | {"authorised": 1},
    "auth/iss-unexpected": REFUSED | {"authorised": 1},
    "auth/iss-normalized": REFUSED | {"authorised": 1},
    "auth/metadata-issuer-mismatch": REFUSED | {"authorised": 0},
    "sep-2322-client-request-state": {
        "asked": ["Please confirm to continue", "Please confirm to continue (no state test)"],
        "calls": [
            ["test_mrtr_echo_state", "echo-state-ok"],
            ["test_mrtr_no_state", "no-state-ok"],
            ["test_mrtr_unrelated", "unrelated-ok"],
            ["test_mrtr_no_result_type", "no-result-type-test-ok"],
        ],
    },
    "http-standard-headers": {
        "calls": [
            ["test_headers", "Headers test completed"],
            ["my-hyphenated-tool", "Headers test completed"],
        ],
        "resources": ["file:///path/to/file%20name.txt", "https://example.com/resource?id=123"],
        "prompts": ["test_prompt"],
    },
    "http-custom-headers": {
        "calls": [
            ["test_custom_headers", "Custom headers test completed"],
            ["test_custom_headers_null", "Custom headers test completed"],
        ],
    },
    "http-invalid-tool-headers": {"tools": ["valid_tool"], "calls": [["valid_tool", "Tool call received"]]},
    "json-schema-ref-no-deref": {"tools": ["lookup_user"], "calls": [["lookup_user", -32601]]},
}

ONLY_OLDEST: dict[str, Report] = {
    "auth/2025-03-26-oauth-metadata-backcompat": AUTHORISED,
    "auth/2025-03-26-oauth-endpoint-fallback": AUTHORISED,
}

# A program authorises by itself: no user opens a page.
EXTENSIONS: dict[str, Report] = {
    "auth/client-credentials-jwt": AUTHORISED | {"authorised": 0},
    "auth/client-credentials-basic": AUTHORISED | {"authorised": 0},
    "auth/enterprise-managed-authorization": AUTHORISED | {"authorised": 0},
    "auth/wif-jwt-bearer": AUTHORISED | {"authorised": 0},
}
WITH_THE_SDK: Final = ("auth/client-credentials-jwt", "auth/client-credentials-basic")
"""Extensions for which the SDK has providers."""

OF_REVISION: dict[str, dict[str, Report]] = {
    LEGACY: {**BOTH_ERAS, **ONLY_LEGACY},
    MODERN: {**BOTH_ERAS, **ONLY_MODERN},
    OLDEST: ONLY_OLDEST,
}

# Extensions that need features which we do not have.
NOT_OURS: Final = {
    "auth/dpop",
    "auth/dpop-nonce",
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
}

# ---- what the suite may leave unjudged, by the names of its checks ------------------------------------------------

UNJUDGED: dict[str, set[str]] = {
    # There is no handshake in this era.
    "http-standard-headers": {"ClientMcpMethodHeader_initialize", "ClientMcpMethodHeader_notifications_initialized"},
}

QUICK: Final = {
    ("sse-retry", LEGACY),
    ("elicitation-sep1034-client-defaults", LEGACY),
    ("sep-2322-client-request-state", MODERN),
    ("http-custom-headers", MODERN),
    ("auth/scope-step-up", MODERN),
}
