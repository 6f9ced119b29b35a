"""The model formats pass the types of the providers' own SDKs, and read the objects that these SDKs make."""

from __future__ import annotations

import subprocess

import pytest

from tests.frameworks.environments import ROOT, find_python


@pytest.mark.nightly
def test_the_sdks_of_the_providers_accept_our_values(pytestconfig: pytest.Config) -> None:
    command = [find_python("oracles", pytestconfig), "-m", "tests.adapters.check_model_sdks"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    providers = ["anthropic", "chat", "responses", "gemini", "bedrock"]
    assert ran.stdout.split() == ["check_the_check", *(f"check_{each}" for each in providers)]
