from __future__ import annotations

import base64
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from hack.soak import scene, trouble, work
from hack.soak.stage import NoAnswerError, Stage
from slurmcluster_operator.api.spec import SlurmClusterSpec


class Slurm:
    """A stage with a made-up Slurm: a list of what each attempt to reach it comes to."""

    def __init__(self, *attempts: str) -> None:
        self.attempts = list(attempts)
        self.submitted: list[str] = []

    def as_user(self, command: str, stdin: str | None = None) -> str:
        attempt = self.attempts.pop(0)
        if attempt != "unreachable":
            self.submitted.append(stdin or "")
        if attempt != "answers":
            raise NoAnswerError(attempt)
        return f"{len(self.submitted)}\n"

    def slurm(self, command: str) -> str:
        if self.attempts and self.attempts[0] == "slurmctld is down":
            self.attempts.pop(0)
            raise NoAnswerError(command)
        name = command.partition("-n ")[2].split(maxsplit=1)[0]
        found = [str(n) for n, script in enumerate(self.submitted, 1) if f"--job-name={name} " in script]
        return "\n".join(found)


def submitter(slurm: Any, monkeypatch: pytest.MonkeyPatch) -> work.Submitter:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return work.Submitter(cast("Stage", slurm), 1, "soak-1")


@pytest.mark.parametrize(
    "attempts",
    [
        ["answers"],
        ["unreachable", "answers"],
        ["the answer is lost"],
        ["the answer is lost", "slurmctld is down", "slurmctld is down"],
        ["unreachable", "slurmctld is down", "unreachable", "answers"],
    ],
)
def test_a_job_is_submitted_surely_and_only_once(attempts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(*attempts)
    made = submitter(slurm, monkeypatch)
    made._submit("h100")
    assert len(slurm.submitted) == 1
    assert not slurm.attempts
    assert [(job.name, job.number) for job in made.jobs] == [("soak-1-0", "1")]


def test_the_same_seed_brings_the_same_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    def jobs(seed: int) -> list[str]:
        monkeypatch.setattr(time, "sleep", lambda _: None)
        slurm = Slurm(*["answers"] * 4)
        made = work.Submitter(cast("Stage", slurm), seed, "soak-1")
        for pool in ("h100", "a100", "h100", "a100"):
            made._submit(pool)
        return slurm.submitted

    assert jobs(1) == jobs(1)
    assert jobs(1) != jobs(2)


def test_what_cannot_be_submitted_for_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_GIVE_UP_SECONDS", -1.0)
    with pytest.raises(NoAnswerError):
        submitter(Slurm("unreachable", "answers"), monkeypatch)._submit("h100")


def test_nothing_is_submitted_while_jobs_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm("answers")
    made = submitter(slurm, monkeypatch)
    with made.held():
        thread = threading.Thread(target=made._submit, args=("h100",))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert not slurm.submitted
    thread.join(10)
    assert len(slurm.submitted) == 1


def test_jobs_are_held_only_once_slurmctld_has_saved_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = submitter(Slurm("answers"), monkeypatch)
    slept: list[float] = []
    made._submit("h100")
    monkeypatch.setattr(time, "sleep", slept.append)
    with made.held():
        assert slept == [pytest.approx(work._SAVED_SECONDS, abs=1.0)]


def test_states_come_from_slurmctld_and_of_forgotten_jobs_from_the_records() -> None:
    class Answers:
        def slurm(self, command: str) -> str:
            return "b|RUNNING\n" if command.startswith("squeue") else "a|COMPLETED\nb|PENDING\nc|CANCELLED by 0\n"

    jobs = [work.Job(name, "h100", 1, 0.0) for name in "abcd"]
    work.look(cast("Stage", Answers()), jobs)
    assert [job.state for job in jobs] == ["COMPLETED", "RUNNING", "CANCELLED", ""]


def test_notes_are_read() -> None:
    text = "soak-1-0.log:start h100-0 1795287487.506\nsoak-1-0.log:end h100-0 1795287492.5\nsoak-1-1.log:half a line\n"
    assert work.parse_notes(text) == {
        "soak-1-0": [("start", "h100-0", 1795287487.506), ("end", "h100-0", 1795287492.5)]
    }


def test_the_batch_script_writes_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho h100-0\necho h100-1\n")
    (tmp_path / "scontrol").chmod(0o755)
    script = scene.batch_script("soak-1-0", "h100", 2, 0.0)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["bash"], input=script, text=True, env=environment, check=True)
    shown = "".join(f"soak-1-0.log:{line}\n" for line in (tmp_path / "soak-1-0.log").read_text().splitlines())
    notes = work.parse_notes(shown)["soak-1-0"]
    assert [note[:2] for note in notes] == [
        ("start", "h100-0"),
        ("start", "h100-1"),
        ("end", "h100-0"),
        ("end", "h100-1"),
    ]
    assert notes[0][2] == pytest.approx(time.time(), abs=60)


def troubles(kinds: dict[str, Callable[[], str]], monkeypatch: pytest.MonkeyPatch) -> trouble.Troubles:
    monkeypatch.setattr(trouble, "_PAUSE", (0.0, 0.0))
    made = trouble.Troubles(cast("Stage", None), cast("work.Submitter", None), 1, print)
    made._kinds = kinds
    return made


def test_every_kind_of_trouble_comes_before_any_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[str] = []
    stop = threading.Event()

    def cause(kind: str) -> str:
        came.append(kind)
        if len(came) == 9:
            stop.set()
        return "" if kind == "nothing there" else "soak-0"

    made = troubles({kind: partial(cause, kind) for kind in ("a", "b", "nothing there")}, monkeypatch)
    made.run(stop)
    assert [sorted(came[first : first + 3]) for first in (0, 3, 6)] == [["a", "b", "nothing there"]] * 3
    assert dict(made.done) == {"a": 3, "b": 3}
    assert not made.not_healed


def test_what_does_not_heal_is_told_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    def broken() -> str:
        raise trouble.NotHealedError("not within 120 s: slurmctld answers")

    def last() -> str:
        if made.not_healed:
            stop.set()
        return "worker-0"

    made = troubles({"slurmctld killed": broken, "power cut": last}, monkeypatch)
    made.run(stop)
    assert made.not_healed[0] == "slurmctld killed: not within 120 s: slurmctld answers"
    assert made.done["power cut"] >= 1


def test_a_kubelet_is_found_among_its_machines_processes(tmp_path: Path) -> None:
    (tmp_path / "kubelet").symlink_to("/bin/sleep")
    script = f"sleep 60 & {tmp_path}/kubelet 60 & echo $!; wait"
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, text=True) as init:
        kubelet = int(init.stdout.readline()) if init.stdout else 0
        time.sleep(0.3)
        try:
            assert trouble.kubelet_of(init.pid) == kubelet
        finally:
            subprocess.run(["pkill", "-P", str(init.pid)], check=False)
    with pytest.raises(trouble.NotHealedError):
        trouble.kubelet_of(None)


def machine(name: str, pool: str, grant: str = "") -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": scene.MODELS[pool], **({scene.FLEET: grant} if grant else {})}
    return {"metadata": {"name": name, "labels": labels}}


def test_two_workers_of_each_kind_are_chosen_that_are_nobody_elses() -> None:
    system = {"metadata": {"name": "system-0"}}
    taken = [machine("w-0", "h100", "slurm-demo.demo"), machine("w-4", "a100", "slurm-demo.demo")]
    mine = [machine(f"w-{number}", "h100") for number in (3, 2, 1)] + [machine("w-5", "a100", scene.CLUSTER)]
    assert scene.choose([system, *taken, *mine, machine("w-6", "a100")]) == ["w-1", "w-2", "w-5", "w-6"]
    with pytest.raises(
        scene.NoWorkersError, match=r"pool a100 needs 2 .* granted to no other cluster; there are: w-5\."
    ):
        scene.choose([system, *taken, *mine])


def test_the_scene_is_valid_and_its_jobs_fit_each_other() -> None:
    key = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
    (_, cluster) = scene.slurm_cluster(f"ssh-ed25519 {key} soak\n")
    spec = SlurmClusterSpec.model_validate(cluster["spec"])
    assert {pool.reclaim.policy for pool in spec.pools} == {"WhenEmpty", "Evict"}
    (_, priority, job) = scene.kubernetes_jobs("image")
    pod = job["spec"]["template"]["spec"]
    gpus = {pool.machine.gpus.count for pool in spec.pools if pool.machine.gpus}
    assert {int(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])} == gpus, "a pod takes a whole node"
    assert pod["priorityClassName"] == priority["metadata"]["name"]
    assert all(priority["value"] < pool.reclaim.below_priority for pool in spec.pools)
