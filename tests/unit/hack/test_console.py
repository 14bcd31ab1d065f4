from __future__ import annotations

import pytest

from hack import console


@pytest.mark.parametrize(
    ("value", "words"), [(0.04, "0.0 s"), (4.26, "4.3 s"), (59.9, "59.9 s"), (60, "1 min 00 s"), (723.4, "12 min 03 s")]
)
def test_seconds_are_written_for_people(value: float, words: str) -> None:
    assert console.seconds(value) == words


def test_table_aligns_columns() -> None:
    assert console.table([("step", "time"), ("a long one", "1 s"), ("b", "12.0 s")], right=frozenset({1})) == (
        "step          time\n----------  ------\na long one     1 s\nb           12.0 s"
    )


def test_a_failed_step_is_in_the_table() -> None:
    steps = console.Steps()
    with steps.step("good"):
        pass
    with pytest.raises(ValueError, match="broken"), steps.step("bad"):
        raise ValueError("broken")
    lines = steps.summary().splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "step",
        "-" * len("bad (failed)"),
        "good",
        "bad (failed)",
        "total",
    ]
