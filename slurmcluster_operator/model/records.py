"""Long lists in JSON, read while they come, so that never all of their text is there at once."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

PIECE: Final = 128 * 1024
"""Bytes of records that are read at a time. Larger pieces of memory would go back to the system after each."""

_TRIES: Final = 3
"""How many places are tried that look like the beginning of a record."""

_APART: Final = 64
"""Bytes that may stand between two records at most."""

_COMMA: Final = re.compile(rb",\s*\Z")
_BEGIN: Final = re.compile(rb'\{\s*"[^"\\]*"')
"""How a record begins: with the name of its first field, which is the same in most of them."""


class Records:
    """Takes the text of a reply, piece by piece, and returns the records of its one long list as they come.

    A piece that begins where a record begins, and that is a list of records once it stands in brackets, ends where a
    record ends: cut anywhere else, a bracket or a string in it is open. So what looks like the beginning of the next
    record, and is not, is found out, and a longer piece is tried.
    """

    def __init__(self, head: re.Pattern[bytes], decoder: msgspec.json.Decoder[Any]) -> None:
        """``head`` matches what comes before the first record; ``decoder`` reads a list of records."""
        self._pattern = head
        self._decoder = decoder
        self._head = b""
        self._begin = b""
        self._buffer = bytearray()
        self._enough = PIECE

    def feed(self, chunk: bytes | bytearray) -> Sequence[Any]:
        """Take what comes next; return the records that are complete with it."""
        self._buffer += chunk
        if len(self._buffer) < self._enough:
            return ()
        found = self._cut()
        # What could not be cut is tried again at twice the length: no text is read more than twice in vain.
        self._enough = PIECE if found else 2 * len(self._buffer)
        return found

    def rest(self) -> bytes:
        """Return the text without the records that have been returned: a reply as well, with a shorter list."""
        return self._head + bytes(self._buffer)

    def _cut(self) -> Sequence[Any]:
        if not self._begin and not self._find_list():
            return ()
        tries = 0
        end = len(self._buffer)
        while tries < _TRIES and (end := self._buffer.rfind(self._begin, 0, end)) > 0:
            comma = _COMMA.search(bytes(self._buffer[max(0, end - _APART) : end]))
            if comma is None:
                continue
            tries += 1
            with memoryview(self._buffer) as text:
                piece = b"".join((b"[", text[: end - len(comma[0])], b"]"))
            with contextlib.suppress(msgspec.DecodeError):
                records: Sequence[Any] = self._decoder.decode(piece)
                del self._buffer[:end]
                return records
        return ()

    def _find_list(self) -> bool:
        text = bytes(self._buffer[:PIECE])
        head = self._pattern.match(text)
        begin = head and _BEGIN.match(text, head.end())
        if not head or not begin:
            return False
        self._head, self._begin = head[0], begin[0]
        del self._buffer[: head.end()]
        return True
