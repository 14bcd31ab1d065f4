"""What a failed soak leaves to look at."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hack.shell import CommandError
from hack.soak import state
from hack.soak.stage import NoAnswerError, Stage


def test_how_things_stand_is_kept_also_where_something_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALKUBE_STATE", str(tmp_path))
    log = tmp_path / "machines" / "worker-1" / "logs" / "kubelet.log"
    log.parent.mkdir(parents=True)
    log.write_text("it does not start")

    def slurm(command: str) -> str:
        if command == "sinfo -R":
            raise NoAnswerError("no answer in time")
        return f"({command})"

    def text(*words: str) -> str:
        if "--previous" in words:
            raise CommandError("kubectl logs", 1, "there is none")
        return f"({words[0]} {words[1]})"

    kubectl = SimpleNamespace(text=text)
    stage: Any = SimpleNamespace(slurm=slurm, inside=kubectl, everywhere=kubectl)
    state.keep(cast("Stage", stage), tmp_path / "7.state.txt")
    parts = (tmp_path / "7.state.txt").read_text().split("=== ")
    found = dict(part.split("\n", 1) for part in parts[1:])
    assert found["scontrol show nodes"].strip() == "(scontrol show nodes)"
    assert found["sinfo -R"].strip() == "no answer in time"
    assert found["pods"].strip() == "(get pods)"
    assert found["kubelet of worker-1"].strip() == "it does not start"
    assert "there is none" in found["the slurmctld before"]
