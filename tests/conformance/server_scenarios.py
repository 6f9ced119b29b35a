"""The scenarios that our server must pass, and for each what the suite must have got from it.

The suite's checks carry what it saw (`details`). A pattern of them has only what matters: a mapping may have more keys
than its pattern, everything else must be equal.
"""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.scenarios import LEGACY, MODERN

ABSENT: Final = object()
"""In a pattern: the key must not be there."""
ANYTHING: Final = object()
"""In a pattern: the key must be there."""

Pattern = Any
Seen = dict[str, Pattern]
"""By the name of a check. A tuple is for checks of the same name, one after the other."""


def fits(pattern: Pattern, value: Any) -> bool:
    """Whether the value is as the pattern says."""
    if pattern is ANYTHING:
        return True
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            key not in value if inner is ABSENT else key in value and fits(inner, value[key])
            for key, inner in pattern.items()
        )
    if isinstance(pattern, list):
        return isinstance(value, list) and len(pattern) == len(value) and all(map(fits, pattern, value))
    return type(pattern) is type(value) and bool(pattern == value)


# ---- what comes back -----------------------------------------------------------------------------------------------


def said(text: str) -> Pattern:
    """The result of a tool that went well and said this, and nothing else."""
    return {"content": [{"type": "text", "text": text}], "isError": ABSENT}


def asking(**questions: Pattern) -> Pattern:
    """These questions; the test checks that no others exist."""
    return {"resultType": "input_required", "inputRequests": questions, "requestState": ANYTHING, "content": ABSENT}


def form(message: str, **fields: Pattern) -> Pattern:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def model(question: str, tokens: int) -> Pattern:
    message = {"role": "user", "content": {"type": "text", "text": question}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


def refused(status: int, code: int, **data: Pattern) -> Pattern:
    """As the suite notes an HTTP answer."""
    error = {"code": code, "message": ANYTHING, **({"data": data} if data else {})}
    return {"responseStatus": status, "responseBody": {"jsonrpc": "2.0", "id": ANYTHING, "error": error}}


def error(code: int, **data: Pattern) -> Pattern:
    """As the suite notes a JSON-RPC answer."""
    return {"response": {"id": ANYTHING, "error": {"code": code, **({"data": data} if data else {})}}}


NAME = form("What is your name?", name={"type": "string"})
CONFIRM = form("Please confirm", ok={"type": "boolean"})
ROOTS: Pattern = {"method": "roots/list"}
HEADER_MISMATCH = refused(400, -32020)

# ---- both eras -----------------------------------------------------------------------------------------------------


def step(done: int) -> Pattern:
    text = f"Completed step {done} of 100"
    return {"progressToken": "progress-test-1", "progress": done, "total": 100, "message": text}


def user(**content: Pattern) -> Pattern:
    return {"role": "user", "content": content}


BOTH_ERAS: dict[str, Seen] = {
    "completion-complete": {
        "CompletionComplete": {"result": {"completion": {"values": ["test-town"], "total": 1}}},
    },
    "tools-list": {"ToolsList": {"toolCount": 29}},
    "tools-call-simple-text": {
        "ToolsCallSimpleText": {"result": said("This is a simple text response for testing.")},
    },
    "tools-call-image": {"ToolsCallImage": {"mimeType": "image/png"}},
    "tools-call-audio": {"ToolsCallAudio": {"audioDataLength": 60}},
    "tools-call-embedded-resource": {"ToolsCallEmbeddedResource": {"resourceUri": "test://embedded-resource"}},
    "tools-call-mixed-content": {"ToolsCallMixedContent": {"contentTypes": ["text", "image", "resource"]}},
    "tools-call-error": {
        "ToolsCallError": {
            "result": {
                "content": [{"type": "text", "text": "This tool intentionally returns an error for testing"}],
                "isError": True,
            }
        }
    },
    "tools-call-with-progress": {
        "ToolsCallWithProgress": {
            "progressNotifications": [step(0), step(50), step(100)],
            "result": said("progress told to progress-test-1"),
        }
    },
    "json-schema-2020-12": {"JsonSchema2020_12AnchorKeyword": {"anchorValue": "addressDef"}},
    "server-sse-multiple-streams": {"ServerAcceptsMultiplePostStreams": {"statuses": [200, 200, 200]}},
    "resources-list": {
        "ResourcesList": {"resources": ["test://static-text", "test://static-binary", "test://watched-resource"]},
    },
    "resources-read-text": {"ResourcesReadText": {"mimeType": "text/plain"}},
    "resources-read-binary": {"ResourcesReadBinary": {"mimeType": "image/png"}},
    "resources-templates-read": {"ResourcesTemplateRead": {"uri": "test://template/123/data"}},
    "prompts-list": {
        "PromptsList": {
            "prompts": [
                "test_simple_prompt",
                "test_prompt_with_arguments",
                "test_prompt_with_embedded_resource",
                "test_prompt_with_image",
                "test_input_required_result_prompt",
            ]
        }
    },
    "prompts-get-simple": {"PromptsGetSimple": {"messageCount": 1}},
    "prompts-get-with-args": {
        "PromptsGetWithArgs": {
            "messages": [user(type="text", text="Prompt with arguments: arg1='testValue1', arg2='testValue2'")]
        }
    },
    "prompts-get-embedded-resource": {
        "PromptsGetEmbeddedResource": {
            "messages": [
                user(
                    type="resource",
                    resource={
                        "uri": "test://example-resource",
                        "mimeType": "text/plain",
                        "text": "Embedded resource content for testing.",
                    },
                ),
                user(type="text", text="Please process the embedded resource above."),
            ]
        }
    },
    "prompts-get-with-image": {"PromptsGetWithImage": {"messageCount": 2}},
    "dns-rebinding-protection": {"LocalhostHostAccepted": {"statusCode": 200}},
}

# ---- the legacy era ---------------------------------------------------------------------------------------------


def log(data: str) -> Pattern:
    return {"level": "info", "data": data}


def field(schema: Pattern) -> Pattern:
    return {"schema": schema}


ONLY_LEGACY: dict[str, Seen] = {
    "server-initialize": {"ServerSessionIdVisibleAscii": {"sessionId": ANYTHING}},
    "server-session-lifecycle": {
        "SessionInitializedAccepted": {"statusCode": 202},
        "SessionTerminatedReturns404": {"statusCode": 404},
    },
    "logging-set-level": {"LoggingSetLevel": {"result": {}}},
    "ping": {"Ping": {"result": {}}},
    "tools-call-with-logging": {
        "ToolsCallWithLogging": {
            "logs": [
                log("Tool execution started"),
                log("Tool processing data"),
                log("Tool execution completed"),
            ]
        }
    },
    "tools-call-sampling": {
        "ToolsCallSampling": {"result": said("LLM response: This is a test response from the client")},
    },
    "tools-call-elicitation": {
        "ToolsCallElicitation": {
            "result": said(
                'User response: action=accept, content={"username": "testuser", "email": "test@example.com"}'
            )
        }
    },
    "elicitation-sep1034-defaults": {
        "ElicitationSEP1034StringDefault": field({"type": "string", "default": "John Doe"}),
        "ElicitationSEP1034IntegerDefault": field({"type": "integer", "default": 30}),
        "ElicitationSEP1034NumberDefault": field({"type": "number", "default": 95.5}),
        "ElicitationSEP1034EnumDefault": field({"enum": ["active", "inactive", "pending"], "default": "active"}),
        "ElicitationSEP1034BooleanDefault": field({"type": "boolean", "default": True}),
    },
    "elicitation-sep1330-enums": {"ElicitationSEP1330TitledMulti": field({"type": "array"})},
    "server-sse-polling": {
        "StreamClosed": {"eventCount": 1, "receivedToolResponse": False},
        "ServerSendsRetryField": {"retryValue": ANYTHING},
        "ServerDisconnectResume": {"receivedToolResponse": True},
    },
    "resources-subscribe": {},
    "resources-unsubscribe": {},
}

# ---- the modern era ------------------------------------------------------------------------------------------------

HINTS = {"ttlMs": 60_000, "cacheScope": "public"}

ONLY_MODERN: dict[str, Seen] = {
    "server-stateless": {
        "RequestMetaInvalid": (error(-32602), error(-32602), error(-32602)),
        "ServerImplementsDiscover": {
            "result": {
                "supportedVersions": ANYTHING,
                "capabilities": {
                    "tools": {"listChanged": True},
                    "prompts": {"listChanged": True},
                    "resources": {"listChanged": True, "subscribe": True},
                    "completions": {},
                },
                "instructions": "Everything here is for the conformance suite.",
            }
        },
        "ServerIdentifiesInResultMeta": {"serverInfo": {"name": "toolcrib-conformance", "version": "1.0.0"}},
        "ServerUnsupportedVersionError": error(-32022, supported=ANYTHING, requested="v999.0.0"),
        "HttpServerHeaderMismatch400": error(-32020),
        "ServerRejectsUndeclaredCapability": error(-32021, requiredCapabilities={"sampling": {}}),
        "HttpServerNoIndependentRequestsOnStream": {"inspectedFramesCount": 1},
        "ServerNoLogWithoutLogLevel": {"framesFound": 1},
        "ServerSendsSubscriptionAck": {"firstFrame": {"params": {"notifications": {"toolsListChanged": True}}}},
        "ServerTagsSubscriptionId": {"inspectedNotificationCount": 2},
        "ServerHonorsNotificationFilter": {"narrowFramesCount": 1},
    },
    "sep-2164-resource-not-found": {"ResourcesNotFoundErrorCode": {"receivedErrorCode": -32602}},
    "caching": {
        "ToolsListCachingHints": HINTS,
        "PromptsListCachingHints": HINTS,
        "ResourcesListCachingHints": HINTS,
        "ResourcesTemplatesListCachingHints": HINTS,
        # The server says how long its lists hold, not what its functions give.
        "ResourcesReadCachingHints": {"ttlMs": 0, "cacheScope": "private"},
    },
    "http-header-validation": {
        "ServerRejectsMismatchedMethodHeader": HEADER_MISMATCH,
        "ServerRejectsMissingMethodHeader": HEADER_MISMATCH,
        "ServerRejectsMismatchedNameHeader": HEADER_MISMATCH,
        "ServerRejectsMissingNameHeader": HEADER_MISMATCH,
        "ServerRejectsCaseMismatchValue": HEADER_MISMATCH,
        "ServerAcceptsWhitespaceHeaderValue": {
            "responseBody": {"result": said("This is a simple text response for testing.")},
        },
    },
    "http-custom-header-server-validation": {
        "ServerAcceptsValidBase64": {"responseBody": {"result": said("region=Hello")}},
        "ServerLiteralMissingBase64Prefix": {"responseBody": {"result": said("region=SGVsbG8=")}},
        "ServerLiteralMissingBase64Suffix": {"responseBody": {"result": said("region==?base64?SGVsbG8=")}},
        "ServerRejectsInvalidBase64Padding": HEADER_MISMATCH,
        "ServerRejectsInvalidBase64Chars": HEADER_MISMATCH,
        "ServerRejectsMissingCustomHeader": HEADER_MISMATCH,
    },
    "input-required-result-basic-elicitation": {
        "InputRequiredResultElicitationIncomplete": {"result": asking(user_name=NAME)},
        "InputRequiredResultElicitationComplete": {"result": said("Hello, Alice!")},
    },
    "input-required-result-basic-sampling": {
        "InputRequiredResultSamplingIncomplete": {
            "result": asking(capital_question=model("What is the capital of France?", 100)),
        },
        "InputRequiredResultSamplingComplete": {"result": said("The capital of France is Paris.")},
    },
    "input-required-result-basic-list-roots": {
        "InputRequiredResultListRootsIncomplete": {"result": asking(client_roots=ROOTS)},
        "InputRequiredResultListRootsComplete": {"result": said("Roots: file:///test/root (Test Root)")},
    },
    "input-required-result-request-state": {
        "InputRequiredResultRequestStateIncomplete": {"result": asking(confirm=CONFIRM)},
        "InputRequiredResultRequestStateComplete": {
            "result": said('state-ok: action=accept, content={"ok": true}'),
        },
    },
    "input-required-result-multiple-input-requests": {
        "InputRequiredResultMultipleInputsIncomplete": {
            "result": asking(user_name=NAME, greeting=model("Generate a greeting", 50), client_roots=ROOTS),
        },
        "InputRequiredResultMultipleInputsComplete": {
            "result": said("Hello there! Alice, at home in ['file:///test/root']"),
        },
    },
    "input-required-result-multi-round": {
        "InputRequiredResultMultiRoundR1": {
            "result": asking(step1=form("Step 1: What is your name?", name={"type": "string"})),
        },
        "InputRequiredResultMultiRoundR2": {
            "result": asking(step2=form("Step 2: What is your favorite color?", color={"type": "string"})),
        },
        "InputRequiredResultMultiRoundR3": {"result": said("Alice likes blue")},
    },
    "input-required-result-missing-input-response": {
        "InputRequiredResultMissingResponseRerequests": {"result": asking(user_name=NAME)},
    },
    "input-required-result-non-tool-request": {
        "InputRequiredResultNonToolIncomplete": {
            "result": asking(
                user_context=form("What context should the prompt use?", context={"type": "string"}),
            )
        },
        "InputRequiredResultNonToolComplete": {
            "result": {"messages": [user(type="text", text="Use this context: test context")]},
        },
    },
    "input-required-result-result-type": {"ResultTypeIncluded": {"result": asking(user_name=NAME)}},
    "input-required-result-unsupported-methods": {},
    "input-required-result-tampered-state": {"RejectTamperedState": {"tamperedResponse": {"code": -32602}}},
    "input-required-result-capability-check": {
        "RespectClientCapabilities": {"result": asking(hello=model("Say hello", 50))},
    },
    "input-required-result-ignore-extra-params": {"IgnoreUnexpectedParams": {"result": said("Hello, Alice!")}},
    "input-required-result-validate-input": {"ValidateInputResponses": {"error": {"code": -32602}}},
}

OF_REVISION: dict[str, dict[str, Seen]] = {
    LEGACY: {**BOTH_ERAS, **ONLY_LEGACY},
    MODERN: {**BOTH_ERAS, **ONLY_MODERN},
}

# ---- what the suite only notes -------------------------------------------------------------------------------------

NOTED: dict[str, set[str]] = {
    # Nothing comes before those answers, so they are not streams.
    "server-sse-multiple-streams": {"ServerSSEStreamsFunctional"},
    "server-sse-polling": {"OutgoingRequest", "IncomingResponse", "IncomingSseEvent", "StreamClosed"},
}
