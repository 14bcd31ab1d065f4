"""The soak: ``make soak ARGS="--minutes 30 --seed 7"``.

Kubernetes Jobs with GPUs fill every idle node, Slurm jobs take nodes back, and something is killed every few seconds.
It passes when no node ever had two claimants and no job was lost.
"""

import argparse
import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from hack import local
from hack.console import Steps, say
from hack.demo import DemoError
from hack.local import BuildFailedError
from hack.shell import CommandError
from hack.soak import report, scene, state, work
from hack.soak.eye import Eye, observing
from hack.soak.scene import NoWorkersError
from hack.soak.stage import NoAnswerError, Stage
from hack.soak.trouble import KILLS, Troubles
from hack.together import end_on_terminate

_TELL_SECONDS: Final = 15.0
_QUIET_SECONDS: Final = 240.0
"""How long jobs may take to end once nothing goes wrong any more."""
_REGISTER_SECONDS: Final = 60.0
_PATIENT_SECONDS: Final = 250.0
_HURRIED_SECONDS: Final = 5.0
_TRIPS_A_MINUTE: Final = 0.6
_MINUTES_FOR_ALL_KILLS: Final = 5
"""Nine troubles, all there are, come in about three minutes."""


class Soak:
    """One run."""

    def __init__(self, stage: Stage, seed: int, record: Path) -> None:
        self._stage = stage
        self._record = record
        self._tag = f"soak-{seed}"
        self._submitter = work.Submitter(stage, seed, self._tag)
        self._troubles = Troubles(stage, self._submitter, seed, self._say)
        self._problems: list[str] = []
        self._began = time.monotonic()

    def run(self, minutes: float, enough: report.Enough) -> report.Result:
        """Let it all happen, wait for what is still under way, and return what came of it."""
        with observing(scene.CLUSTER, self._record, self._stage.env) as eye:
            self._stage.fill()
            self._began = time.monotonic()
            with self._busy({"the submission of jobs": self._submitter.run, "the trouble": self._troubles.run}):
                self._tell(eye, self._began + minutes * 60)
            say("everything works again, and no more jobs are submitted: waiting for those that are under way")
            deadline = time.monotonic() + _QUIET_SECONDS
            while self._open() and time.monotonic() < deadline:
                self._stage.register()
                self._tell(eye, time.monotonic() + _REGISTER_SECONDS, self._open)
            work.read_notes(self._stage, self._submitter.jobs, self._tag)
            findings = eye.close()
        jobs = [asdict(job) for job in self._submitter.jobs]
        self._record.with_suffix(".jobs.json").write_text(json.dumps(jobs, indent=1))
        if "blind" in findings:
            self._problems.append(f"the observer has missed something: {findings['blind']}")
        problems = [*self._problems, *self._troubles.not_healed]
        result = report.Result(self._submitter.jobs, findings, self._troubles.done, problems, enough)
        if any(report.failures(result)):
            stood = self._record.with_suffix(".state.txt")
            state.keep(self._stage, stood)
            say(f"how things stood: {stood.relative_to(local.ROOT)}")
        return result

    @contextmanager
    def _busy(self, parts: Mapping[str, Callable[[threading.Event], None]]) -> Iterator[None]:
        """Run parts beside each other; when the block ends, let each come to a good end."""
        stop = threading.Event()
        threads = [
            threading.Thread(target=self._guarded, args=(part, stop), name=name, daemon=True)
            for name, part in parts.items()
        ]
        for thread in threads:
            thread.start()
        patience = _HURRIED_SECONDS
        try:
            yield
            patience = _PATIENT_SECONDS
        finally:
            stop.set()
            for thread in threads:
                thread.join(patience)
                if thread.is_alive():
                    self._problems.append(f"{thread.name} has not come to an end")

    def _guarded(self, part: Callable[[threading.Event], None], stop: threading.Event) -> None:
        try:
            part(stop)
        except (CommandError, NoAnswerError) as error:
            self._problems.append(str(error))

    def _open(self) -> bool:
        return any(job.waits or not job.state for job in self._submitter.jobs)

    def _tell(self, eye: Eye, until: float, while_: Callable[[], bool] = lambda: True) -> None:
        """Say every few seconds how things are, up to a time, or as long as something holds."""
        while not eye.is_blind:
            with contextlib.suppress(NoAnswerError):  # slurmctld may be what was killed
                work.look(self._stage, self._submitter.jobs)
            self._say(self._words(eye))
            self._stage.tidy()
            if time.monotonic() > until or not while_():
                return
            time.sleep(min(_TELL_SECONDS, max(0.0, until - time.monotonic())))

    def _words(self, eye: Eye) -> str:
        jobs, seen = list(self._submitter.jobs), eye.findings
        served = sorted(seen.get("uses", {}).items())
        now = " ".join(f"{node.removeprefix('worker-')}:{used[-1]}" for node, used in served)
        pods = seen.get("pods", {})
        completed = sum(job.state == "COMPLETED" for job in jobs)
        parts = [
            f"{completed}/{len(jobs)} jobs completed",
            f"{pods.get('ran', 0)} pods ran, {pods.get('evicted', 0)} evicted",
            f"{sum(seen.get('round_trips', {}).values())} round trips",
            f"{len(seen.get('double_claims', ()))} double claims",
            now,
        ]
        if self._troubles.current:
            parts.append(f"now: {self._troubles.current}")
        return ", ".join(part for part in parts if part)

    def _say(self, words: str) -> None:
        say(f"[{time.monotonic() - self._began:6.0f} s] {words}")


def run(minutes: float, seed: int, enough: report.Enough) -> int:
    """Find a cluster, soak it, and leave the machine as it was; return the exit status."""
    steps = Steps()
    record = local.ROOT / "build" / "soak" / f"{seed}.jsonl"
    record.parent.mkdir(parents=True, exist_ok=True)
    ran_before = local.is_running()
    with steps.step("Build what is missing: localkube's programs, and the images"):
        local.build()
    with local.borrowed(workers=scene.WORKERS) as kubernetes:
        stage = Stage(kubernetes)
        try:
            with steps.step("Set the scene"):
                if ran_before:
                    stage.clear()
                stage.set_up()
            with steps.step(f"Soak for {minutes:g} minutes, seed {seed}"):
                result = Soak(stage, seed, record).run(minutes, enough)
        finally:
            if ran_before:
                say("clearing away")
                local.localkube("up")  # a node may still be without power
                stage.clear()
    say(f"\n{report.summary(result)}\n\nWhat the observer saw: {record.relative_to(local.ROOT)}")
    wrong = list(report.failures(result))
    for sentence in wrong:
        say(f"WRONG: {sentence}")
    say(f"\nmake soak: {'FAILED' if wrong else 'PASSED'} (seed {seed})")
    return 1 if wrong else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long (default 30)")
    parser.add_argument("--seed", type=int, help="what goes wrong when, and which jobs come (default: by chance)")
    parser.add_argument("--round-trips", type=int, help="how many there must be (default: three in five minutes)")
    chosen = parser.parse_args()
    seed = random.randrange(1000) if chosen.seed is None else chosen.seed  # noqa: S311
    trips = round(chosen.minutes * _TRIPS_A_MINUTE) if chosen.round_trips is None else chosen.round_trips
    enough = report.Enough(trips, KILLS if chosen.minutes >= _MINUTES_FOR_ALL_KILLS else ())
    end_on_terminate()
    try:
        return run(chosen.minutes, seed, enough)
    except (BuildFailedError, CommandError, DemoError, NoWorkersError) as error:
        say(f"\nThe soak did not come to its end. {error}")
        return 1
    except KeyboardInterrupt:
        say("\nThe soak was stopped.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
