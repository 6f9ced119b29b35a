from __future__ import annotations

import pytest

from toolcrib.errors import UsageError
from toolcrib.provider.principals import check_principal


@pytest.mark.parametrize("name", ["alice", "shared", "local", "Ünal Ö", "a@b.example", "x" * 200])
def test_a_name_is_returned(name: str) -> None:
    assert check_principal(name) == name


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800", "x" * 201, None, 1, b"a", ["a"]])
def test_other_values_are_refused(name: object) -> None:
    with pytest.raises(UsageError, match="principal: expected a name of 1 to 200 printable characters, got"):
        check_principal(name)
