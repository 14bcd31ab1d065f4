from __future__ import annotations

from hack import check
from hack.local import ROOT


def test_a_file_of_end_to_end_tests_is_in_one_half() -> None:
    (others,), (elastic,) = check.halves({})
    assert all((ROOT / file).is_file() for file in check.ELASTIC)
    assert elastic.command[-1] == f"ARGS={' '.join(check.ELASTIC)}"
    assert others.command[-1] == "ARGS=tests/e2e " + " ".join(f"--ignore={file}" for file in check.ELASTIC)


def test_a_cluster_that_is_given_runs_all_of_them() -> None:
    ((task,),) = check.halves({"KUBECONFIG_E2E": "config"})
    assert task.command[-1] == "e2e"
