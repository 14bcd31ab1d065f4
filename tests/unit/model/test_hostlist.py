from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcluster_operator.model.hostlist import compress, expand, stems


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("h100-3", ["h100-3"]),
        ("h100-[0-2,7],a100-1", ["h100-0", "h100-1", "h100-2", "h100-7", "a100-1"]),
        ("big-mem-[8-9]", ["big-mem-8", "big-mem-9"]),
    ],
)
def test_host_lists_are_read(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@given(st.sets(st.tuples(st.sampled_from(["h100", "a100", "big-mem"]), st.integers(0, 300))))
def test_what_is_written_reads_the_same(nodes: set[tuple[str, int]]) -> None:
    names = {f"{pool}-{number}" for pool, number in nodes}
    assert set(expand(compress(names))) == names


def test_stems_are_names_without_their_last_number() -> None:
    assert stems("h100-[0-3,7],h100-fat-2,a100-[10000-19999]") == {"h100", "h100-fat", "a100"}
    assert stems("") == frozenset()
