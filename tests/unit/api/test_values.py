from __future__ import annotations

import pytest

from slurmcluster_operator.api.values import mebibytes, seconds, slurm_time, split_node_name


@pytest.mark.parametrize(("size", "mib"), [("512Mi", 512), ("1000Gi", 1_024_000), ("2Ti", 2_097_152)])
def test_slurm_counts_memory_in_mebibytes(size: str, mib: int) -> None:
    assert mebibytes(size) == mib


@pytest.mark.parametrize(("duration", "expected"), [("90s", 90), ("10m", 600), ("18h", 64800), ("2d", 172_800)])
def test_durations_in_seconds(duration: str, expected: int) -> None:
    assert seconds(duration) == expected


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("2d", "2-00:00:00"),
        ("90m", "0-01:30:00"),
        ("36h", "1-12:00:00"),
        ("61s", "0-00:01:01"),
        ("UNLIMITED", "UNLIMITED"),
    ],
)
def test_time_limits_as_slurm_writes_them(limit: str, expected: str) -> None:
    assert slurm_time(limit) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100-0", ("h100", 0)),
        ("a-1-12", ("a-1", 12)),
        ("h100", None),
        ("h100-01", None),
        ("h100-", None),
        ("H100-1", None),
        ("1a-1", None),
    ],
)
def test_node_names_split_into_pool_and_ordinal(name: str, expected: tuple[str, int] | None) -> None:
    assert split_node_name(name) == expected
