"""JSON Web Tokens for slurmrestd, signed with the cluster's own key (HS256, auth/jwt)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import jwt

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
            self._token = jwt.encode(claims, self.key, algorithm="HS256")
            self._renew_at = now + LIFESPAN / 2
        return self._token

    def forget(self) -> None:
        """Mint anew at the next call: the last token was refused."""
        self._renew_at = 0.0
