"""JSON Web Tokens for slurmrestd, signed with the cluster's own key (HS256, auth/jwt).

Made by hand: PyJWT brings all of ``cryptography`` along, a tenth of the operator's memory.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LIFESPAN: Final = 600
"""Seconds that a token is good for: short, so that a leaked one is soon worthless."""


@dataclass(slots=True)
class TokenSource:
    """Mints tokens for one user and renews them at half of their life."""

    key: bytes
    user: str = "slurm"
    _token: str = field(default="", repr=False)
    _renew_at: float = 0.0

    def token(self, now: float) -> str:
        """Return a token that is valid for at least half its life from ``now`` (seconds since the epoch)."""
        if now >= self._renew_at or now < self._renew_at - LIFESPAN:
            # A little in the past, for clocks that differ between machines.
            claims = {"sun": self.user, "iat": int(now) - 30, "exp": int(now) + LIFESPAN}
            self._token = _signed(claims, self.key)
            self._renew_at = now + LIFESPAN / 2
        return self._token

    def forget(self) -> None:
        """Mint anew at the next call: the last token was refused."""
        self._renew_at = 0.0


def _signed(claims: Mapping[str, Any], key: bytes) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, claims)
    content = ".".join(_text(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
    return f"{content}.{_text(hmac.digest(key, content.encode(), 'sha256'))}"


def _text(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")
