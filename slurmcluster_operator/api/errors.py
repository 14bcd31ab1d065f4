"""What pydantic found wrong, in the API server's words: the field's path and a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

_MAPS: Final = frozenset({"annotations", "limits", "nodeSelector", "requests", "slurmConf"})
"""Fields whose keys people choose."""

_WORDS: Final = {
    "missing": "Required value",
    "extra_forbidden": "unknown field",
    "literal_error": "Unsupported value: {given}: supported values: {expected}",
    "too_short": "should have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
}
"""pydantic's kinds of errors to the API server's words."""


def problems(error: ValidationError, root: str = "spec") -> list[str]:
    """Return one line a problem, as in ``spec.pools[0].nodes.min: min must not be greater than max``."""
    return [f"{path(one['loc'], root)}: {_words(one)}" for one in error.errors()]


def path(location: Sequence[str | int], root: str = "spec") -> str:
    """Write a location as the API server does: ``spec.pools[0].name``, ``spec.slurmConf[PluginDir]``."""
    steps = (
        f"[{step}]" if isinstance(step, int) or above in _MAPS else f".{step}"
        for above, step in zip((root, *location), location, strict=False)
    )
    return root + "".join(steps)


def _words(one: Any) -> str:
    template = _WORDS.get(one["type"])
    return template.format(given=repr(one["input"]), **one.get("ctx", {})) if template else str(one["msg"])
