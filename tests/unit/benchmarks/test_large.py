from __future__ import annotations

from dataclasses import replace

import aiohttp
import pytest

from benchmarks import simulation
from benchmarks.large import Look
from benchmarks.simulator import Slurm
from benchmarks.start import CannotMeasureError
from slurmcluster_operator.slurm.client import SlurmRest
from slurmcluster_operator.slurm.tokens import TokenSource

LINE = (
    "2026-11-21 15:38:14,879 DEBUG   slurmcluster_operator.runtime.loop: scale/demo: "
    "look took 70 ms: observe 20 ms, plan 40 ms, act 1 ms, status 9 ms"
)


def test_a_look_is_read_from_the_log() -> None:
    look = Look.from_line(LINE)
    assert look.milliseconds == 70
    assert look.parts == {"observe": 20, "plan": 40, "act": 1, "status": 9}
    assert look.ended - look.planned == pytest.approx(0.010, abs=1e-6)
    with pytest.raises(CannotMeasureError):
        Look.from_line("something else")


async def test_the_simulated_slurmrestd_answers_as_the_client_expects() -> None:
    slurm = Slurm(simulation.places(400))
    async with slurm.served() as proxy:
        rest = SlurmRest("http://restapi.scale:6820", TokenSource(b"k" * 32), proxy=proxy)
        assert len(await rest.nodes()) == 400
        before = await rest.jobs()
        assert {job.job_id for job in before} == set(range(1, len(before) + 1))
        asked = [replace(place, condition="ASKED") for place in slurm.in_condition("OFF")[:3]]
        slurm.change(asked)
        found = {node.name: node.state for node in await rest.nodes()}
        assert all("POWERING_UP" in found[place.name] for place in asked)
        starting = {job.nodes for job in await rest.jobs() if "CONFIGURING" in job.job_state}
        assert all(any(place.name in nodes.split(",") for nodes in starting) for place in asked)
        await rest.close()


async def test_no_change_is_no_body() -> None:
    slurm = Slurm(simulation.places(400))
    async with slurm.served() as proxy, aiohttp.ClientSession() as client:
        later = {"update_time": "4000000000"}
        async with client.get("http://restapi/slurm/v0.0.45/nodes/", params=later, proxy=proxy) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
        async with client.get("http://restapi/slurm/v0.0.45/jobs/", params=later, proxy=proxy) as answer:
            content = await answer.json()
            assert (content["jobs"], content["last_update"]["number"]) == ([], 0)


async def test_drains_are_kept() -> None:
    slurm = Slurm(simulation.places(400))
    async with slurm.served() as proxy, aiohttp.ClientSession() as client:

        async def post(**body: object) -> None:
            async with client.post("http://restapi/slurm/v0.0.45/nodes/", json=body, proxy=proxy) as answer:
                assert answer.status == 200

        await post(name="h0-[0-1]", state=["DRAIN"], reason="slurmcluster: why")
        assert slurm.places["h0-1"].drained == "slurmcluster: why"
        await post(name="h0-1", state=["UNDRAIN"])
        assert (slurm.places["h0-0"].drained, slurm.places["h0-1"].drained) == ("slurmcluster: why", "")
