"""What an image depends on, as one short name: equal names, equal images."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from images.catalog import Image

FORMAT: Final = 1
"""Raised when the way of building changes what comes out."""
_LENGTH: Final = 16
_IGNORED: Final = frozenset({"__pycache__", ".DS_Store"})


class MissingInputError(Exception):
    """An image copies a file that is not there."""


def _files(root: Path, paths: Iterable[str]) -> Iterator[Path]:
    for name in paths:
        path = root / name
        if path.is_dir():
            inside = (each for each in path.rglob("*") if _IGNORED.isdisjoint(each.parts))
            yield from (each for each in inside if each.is_file())
        elif path.is_file():
            yield path
        else:
            raise MissingInputError(name)


def fingerprint(root: Path, paths: Iterable[str]) -> list[tuple[str, bool, str]]:
    """Return name, executable bit and content's hash of each file, in a fixed order."""
    return sorted(
        (
            path.relative_to(root).as_posix(),
            bool(path.stat().st_mode & 0o100),
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in _files(root, paths)
    )


def _short(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def base_key(recipe: Sequence[str]) -> str:
    """Return the name of a Debian base made by these arguments."""
    return _short([FORMAT, list(recipe)])


def image_key(root: Path, image: Image, recipe: Sequence[str]) -> str:
    """Return the name of an image built from these sources on a base made by these arguments."""
    files = fingerprint(root, (image.dockerfile, *image.inputs))
    return _short([FORMAT, base_key(recipe), image.reference, image.target, image.args, files])
