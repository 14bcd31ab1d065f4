from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcluster_operator.model import records
from slurmcluster_operator.model.records import Records

HEAD = re.compile(rb'\s*\{\s*"nodes"\s*:\s*\[\s*')
TRAPS = st.sampled_from(['"', "\\", "{", "}", "[", "]", ",", '},{"name":', '"}],"nodes":[{"name":"x"}', " "])
TEXTS = st.lists(TRAPS).map("".join)
INNER = st.recursive(
    TEXTS | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "x"]), inner, max_size=2),
    max_leaves=6,
)
RECORD = st.fixed_dictionaries({"name": TEXTS, "x": INNER}) | st.fixed_dictionaries({"x": INNER, "name": TEXTS})


class Named(msgspec.Struct, frozen=True):
    name: str


class Reply(msgspec.Struct, frozen=True):
    nodes: list[Named]
    errors: tuple[str, ...] = ()


def read(text: bytes, size: int) -> tuple[list[str], Reply]:
    """Return the names of the records that were read early, and what is left."""
    stream = Records(HEAD, msgspec.json.Decoder(list[Named]))
    early = [one.name for at in range(0, len(text), size) for one in stream.feed(text[at : at + size])]
    return early, msgspec.json.decode(stream.rest(), type=Reply)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PIECE", 40)


@given(st.lists(RECORD, max_size=12), st.sampled_from([None, 0, 3]), st.integers(1, 90))
def test_read_in_pieces_it_is_what_it_is_as_a_whole(found: list[Any], indent: int | None, size: int) -> None:
    text = json.dumps({"nodes": found, "errors": ["last"]}, indent=indent).encode()
    early, rest = read(text, size)
    assert [*early, *(one.name for one in rest.nodes)] == [one["name"] for one in found]
    assert rest.errors == ("last",)


def test_most_of_a_long_list_is_read_before_it_has_come_whole() -> None:
    text = json.dumps({"nodes": [{"name": f"n{number}", "inner": [{"name": 1}, {}]} for number in range(100)]}).encode()
    early, rest = read(text, 30)
    assert len(early) > 90
    assert len(rest.nodes) == 100 - len(early)


def test_a_record_that_cannot_be_read_is_left_for_the_whole() -> None:
    text = json.dumps({"nodes": [{"name": "x" * 50}, {"name": 5}, *({"name": "y" * 50} for _ in range(50))]}).encode()
    with pytest.raises(msgspec.ValidationError, match=r"nodes\[\d+\]\.name"):
        read(text, 7)


def test_what_is_not_json_is_never_skipped() -> None:
    chance = Random(1)  # noqa: S311 - not for secrets
    text = json.dumps({"nodes": [{"name": f"n{number}"} for number in range(60)]}).encode()
    for _ in range(300):
        at = chance.randrange(len(text))
        broken = text[:at] + chance.choice([b"[", b"{", b"}", b",", b'"']) + text[at:]
        try:
            whole = msgspec.json.decode(broken, type=Reply)
        except msgspec.DecodeError:
            with pytest.raises(msgspec.DecodeError):
                read(broken, 25)
        else:
            early, rest = read(broken, 25)
            assert [*early, *(one.name for one in rest.nodes)] == [one.name for one in whole.nodes]
