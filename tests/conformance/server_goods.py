"""The resources and prompts of the server under test, and what it suggests to complete them."""

from __future__ import annotations

from typing import Any

from server_questions import form
from server_tools import PNG, embedded

import toolcrib as tc

CITIES = ("paris", "park", "party", "test-town")


def offer(server: tc.ToolServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text that never changes."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """A picture that never changes."""
        return PNG

    @server.resource("test://watched-resource", mime_type="text/plain")
    async def watched_resource() -> str:
        """A text to subscribe to."""
        return "Watched resource content"

    @server.resource("test://template/{id}/data", mime_type="application/json")
    async def templated(id: str) -> dict[str, Any]:
        """One text for every id."""
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}

    @server.prompt
    def test_simple_prompt() -> str:
        """A prompt as it is."""
        return "This is a simple prompt for testing."

    @server.prompt
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A prompt with two gaps.

        Args:
            arg1: The first gap.
            arg2: The second gap.
        """
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 - the suite's name for it
        """A prompt about a resource."""
        return [
            embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
            "Please process the embedded resource above.",
        ]

    @server.prompt
    async def test_prompt_with_image() -> list[Any]:
        """A prompt about a picture."""
        return [tc.ImageContent(PNG, "image/png"), "Please analyze the image above."]

    @server.prompt
    async def test_input_required_result_prompt(ctx: tc.Context) -> str:
        """A prompt that asks first."""
        question = "What context should the prompt use?"
        answer = await ctx.elicit(question, form(context={"type": "string"}), key="user_context")
        return f"Use this context: {(answer.content or {}).get('context')}"

    @server.completion("test_prompt_with_arguments", "arg1")
    def cities(value: str) -> list[str]:
        return [city for city in CITIES if city.startswith(value)]
