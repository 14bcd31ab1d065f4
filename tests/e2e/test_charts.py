"""The charts' tests once more: beside the unit tests Helm may not be built yet, here it is."""

from __future__ import annotations

from tests.unit.charts.conftest import find_helm, helm, render
from tests.unit.charts.test_admission import *  # noqa: F403 - their tests
from tests.unit.charts.test_cluster_chart import *  # noqa: F403
from tests.unit.charts.test_operator_chart import *  # noqa: F403

__all__ = ["helm", "render"]


def test_helm_is_there() -> None:
    assert find_helm()
