"""From ssh to sbatch, srun and sacct, as researchers use it."""

from __future__ import annotations

import pytest

from tests.e2e.support import Person, SlurmCluster, eventually


@pytest.fixture(params=["26.05", "24.11"])
def any_version(request: pytest.FixtureRequest) -> SlurmCluster:
    """Each Slurm version in turn, for what both must pass."""
    found: SlurmCluster = request.getfixturevalue("main" if request.param == "26.05" else "second")
    return found


def test_ready_means_that_an_ordinary_users_job_runs(any_version: SlurmCluster, people: dict[str, Person]) -> None:
    assert any_version.run_job(people["alice"], "id -un; hostname", "-N1").splitlines() == ["alice", "h100-0"]


def test_the_version_is_the_one_asked_for(any_version: SlurmCluster, people: dict[str, Person]) -> None:
    wanted = any_version.spec.get("slurmVersion", "26.05")
    assert any_version.ssh(people["alice"], "sinfo --version").split()[1].startswith(f"{wanted}.")
    assert any_version.run_job(people["alice"], "srun --version").split()[1].startswith(f"{wanted}.")


def test_gpus_are_given_by_slurm(any_version: SlurmCluster, people: dict[str, Person]) -> None:
    eight = any_version.run_job(people["alice"], "echo $CUDA_VISIBLE_DEVICES", "--gpus=8")
    assert eight.strip() == "0,1,2,3,4,5,6,7"
    one = any_version.run_job(people["alice"], "echo $CUDA_VISIBLE_DEVICES", "--gres=gpu:h100:1")
    assert one.strip() == "0"


def test_accounting_knows_both_users_jobs(any_version: SlurmCluster, people: dict[str, Person]) -> None:
    jobs = {name: any_version.sbatch(people[name], "true", f"-J of-{name}") for name in ("alice", "bob")}
    for name, job in jobs.items():
        any_version.wait_job(job)

        def recorded(name: str = name, job: str = job) -> bool:
            shown = any_version.ssh(people[name], f"sacct -X -n -P -o User,JobName,State -j {job}").strip()
            assert shown == f"{name}|of-{name}|COMPLETED", shown
            return True

        eventually(f"sacct shows job {job}", recorded, within=15)


def test_a_two_node_gpu_job(main: SlurmCluster, people: dict[str, Person]) -> None:
    shown = main.run_job(
        people["alice"],
        "srun bash -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES'",
        "-N2 --ntasks-per-node=1 --gpus-per-node=8",
    )
    assert sorted(shown.splitlines()) == ["h100-0 0,1,2,3,4,5,6,7", "h100-1 0,1,2,3,4,5,6,7"]


def test_an_interactive_srun(main: SlurmCluster, people: dict[str, Person]) -> None:
    shown = main.ssh(people["alice"], "srun -N1 --pty bash -ic 'tty && hostname && exit 0'", tty=True)
    assert "/dev/pts/" in shown
    assert "h100-" in shown


def test_an_array(main: SlurmCluster, people: dict[str, Person]) -> None:
    job = main.sbatch(people["bob"], "echo task $SLURM_ARRAY_TASK_ID", "--array=1-4 --mem=100")
    eventually(
        "all tasks are accounted as completed",
        lambda: main.ssh(people["bob"], f"sacct -X -n -P -o State -j {job}").split() == ["COMPLETED"] * 4,
        within=60,
    )
    assert main.ssh(people["bob"], f"cat slurm-{job}_*.out | sort").splitlines() == [f"task {n}" for n in range(1, 5)]


@pytest.mark.parametrize("partition", ["gpu", "iso"])
def test_identity_on_nodes_is_that_of_the_login_pod(
    main: SlurmCluster, people: dict[str, Person], partition: str
) -> None:
    for name, groups in (("alice", {"alice", "vision"}), ("bob", {"bob", "speech", "vision"})):
        shown = main.run_job(people[name], "srun bash -c 'id -u; id -g; id -Gn; pwd'", f"-p {partition}").splitlines()
        assert shown[:2] == [str(people[name].uid)] * 2
        assert set(shown[2].split()) == groups
        assert shown[3] == f"/home/{name}"
        assert main.ssh(people[name], "id -Gn").split() == shown[2].split()


def test_homes_are_shared_and_private(main: SlurmCluster, people: dict[str, Person]) -> None:
    main.ssh(people["alice"], "echo for my eyes only > diary && chmod 644 diary")
    assert main.run_job(people["alice"], "cat ~/diary") == "for my eyes only\n"
    refused = main.ssh(people["bob"], "cat /home/alice/diary", check=False)
    assert "Permission denied" in refused
    job = main.sbatch(people["bob"], "cat /home/alice/diary")
    main.wait_job(job, "FAILED")
    assert "Permission denied" in main.output(people["bob"], job)


def test_a_fenced_job_cannot_open_another_jobs_gpu(main: SlurmCluster, people: dict[str, Person]) -> None:
    # The devices of a machine without GPUs have no driver: the one that was given answers ENXIO, the others EPERM.
    shown = main.run_job(
        people["alice"], "for n in 0 1; do head -c1 /dev/nvidia$n 2>&1; done; true", "--gres=gpu:1 -p gpu"
    )
    assert shown.count("Operation not permitted") == 1, shown
    assert "/dev/nvidia1" in next(line for line in shown.splitlines() if "Operation not permitted" in line)


def test_without_privilege_means_without(main: SlurmCluster, people: dict[str, Person]) -> None:
    (container,) = main.json("get", "pod", "main-iso-0")["spec"]["containers"]
    assert not container["securityContext"].get("privileged", False)
    assert main.run_job(people["alice"], "echo $CUDA_VISIBLE_DEVICES", "-p iso --gpus=8").strip() == "0,1,2,3,4,5,6,7"


def test_nobody_logs_in_without_a_key(main: SlurmCluster, people: dict[str, Person]) -> None:
    stranger = people["carol"]
    assert "Permission denied" in main.ssh(stranger, "true", check=False)
    assert "Permission denied" in main.ssh(Person("root", 0, (), people["alice"].key), "true", check=False)


def test_host_keys_survive_the_login_pod(main: SlurmCluster, people: dict[str, Person]) -> None:
    main.ssh(people["alice"], "true")
    before = main.known_hosts.read_text()
    assert before
    pod = main.pod("login")["metadata"]
    main.ctl("delete", "pod", pod["name"], "--wait=true")
    main.wait_condition("LoginReady", "True", within=60)
    # ssh itself refuses a host whose key has changed.
    eventually("alice is back in", lambda: main.ssh(people["alice"], "echo hello") == "hello\n", within=30)
    assert main.known_hosts.read_text() == before
    assert main.pod("login")["metadata"]["uid"] != pod["uid"]


def test_an_oversize_job_is_refused_at_submit(main: SlurmCluster, people: dict[str, Person]) -> None:
    said = main.ssh(people["alice"], "sbatch -N9 --wrap true", check=False)
    assert "error: Batch job submission failed" in said
