"""Access tokens in the form of signed JWTs (RFC 7519, RFC 9068): parsing, and checking the signature.

Needs joserfc (the extra `oauth`). Nothing in a token decides how it is verified: keys and certificates in its header
are ignored, and its algorithm must be an allowed one that fits the issuer's key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry
from joserfc.util import urlsafe_b64decode

from .jwks import PublicKey
from .token_claims import TokenRejected

ACCESS_TOKEN_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
"""Values of `typ` of access tokens (RFC 9068)."""
ANY_TYPES: Final = ACCESS_TOKEN_TYPES | {"jwt", ""}
"""Values of `typ` that are accepted by default: many issuers mark no token as an access token."""

MAX_KEY_ID_CHARACTERS: Final = 512
"""Maximum length of a `kid`: unknown ones are remembered."""


@dataclass(frozen=True, slots=True)
class SignedToken:
    """A JWT whose signature has not been checked."""

    algorithm: str
    key_id: str
    """"" if the token names no key."""
    claims: Mapping[str, Any]
    signing_input: bytes
    signature: bytes

    def has_signature_of(self, keys: Iterable[PublicKey]) -> bool:
        """Return whether one of these keys made the signature."""
        algorithm = JWSRegistry.algorithms[self.algorithm]
        return any(_verify(algorithm, self, key) for key in keys)


def _verify(algorithm: Any, token: SignedToken, key: PublicKey) -> bool:
    try:
        algorithm.check_key(key.key)
        return algorithm.verify(token.signing_input, token.signature, key.key) is True
    except (JoseError, ValueError, TypeError):
        return False


def looks_signed(token: str) -> bool:
    """Return whether a token has the form of a signed JWT; any other one is opaque."""
    return token.count(".") == 2 and token.startswith("ey")


def parse_signed_token(token: str, algorithms: Collection[str], types: Collection[str]) -> SignedToken:
    """Parse a JWT; raises `TokenRejected` if its form, algorithm or type is not acceptable."""
    signing_input, _, signature = token.encode().rpartition(b".")
    header_part, _, claims_part = signing_input.partition(b".")
    header = _object(header_part, "header")
    algorithm, kind, key_id = header.get("alg"), header.get("typ", ""), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise TokenRejected("alg: not an allowed algorithm")
    if "crit" in header or "b64" in header:
        raise TokenRejected("crit: no extensions are supported")
    if not isinstance(kind, str) or kind.lower() not in types:
        raise TokenRejected("typ: not an access token")
    if "cty" in header:
        raise TokenRejected("cty: nested tokens are not supported")
    if not isinstance(key_id, str) or len(key_id) > MAX_KEY_ID_CHARACTERS:
        raise TokenRejected("kid: not a string, or too long")
    try:
        decoded = urlsafe_b64decode(signature)
    except ValueError:
        raise TokenRejected("the signature is malformed") from None
    return SignedToken(algorithm, key_id, _object(claims_part, "claims"), signing_input, decoded)


def _object(part: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(urlsafe_b64decode(part))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise TokenRejected(f"the {name} is not a JSON object")
    return value
