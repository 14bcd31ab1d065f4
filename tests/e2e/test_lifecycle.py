"""Two clusters side by side; deletion, and what is kept."""

from __future__ import annotations

from tests.e2e.support import Person, SlurmCluster, eventually

EVERYTHING = "all,configmaps,secrets,persistentvolumeclaims,networkpolicies,slurmclusters"


def test_two_clusters_live_side_by_side(main: SlurmCluster, second: SlurmCluster, people: dict[str, Person]) -> None:
    for cluster in (main, second):
        cluster.wait_condition("Ready", "True", within=60)
    jobs = {
        cluster.name: cluster.sbatch(people["alice"], "echo $SLURM_CLUSTER_NAME", "--exclusive")
        for cluster in (main, second)
    }
    for cluster in (main, second):
        cluster.wait_job(jobs[cluster.name])
        assert cluster.output(people["alice"], jobs[cluster.name]) == f"{cluster.name}\n"
    nodes = [
        pod["spec"]["nodeName"]
        for cluster in (main, second)
        for pod in cluster.json("get", "pods", "-l", "app.kubernetes.io/component=slurmd")["items"]
    ]
    assert len(nodes) == len(set(nodes)) == 4


def test_deletion_keeps_the_volumes_and_creation_finds_the_history(
    second: SlurmCluster, people: dict[str, Person]
) -> None:
    second.wait_condition("Ready", "True", within=60)
    job = second.sbatch(people["alice"], "true", "-J before")
    second.wait_job(job)
    eventually(
        "the job is in sacct", lambda: "COMPLETED" in second.ssh(people["alice"], f"sacct -X -n -j {job}"), within=30
    )
    second.ctl("delete", "slurmcluster", "second", "--wait=true", "--timeout=60s")

    def left() -> bool:
        items = second.json("get", EVERYTHING)["items"]
        names = {
            f"{item['kind']}/{item['metadata']['name']}"
            for item in items
            if item["metadata"]["name"] != "kube-root-ca.crt"
        }
        claims = {f"PersistentVolumeClaim/second-{name}" for name in ("controller-state", "database", "home")}
        assert names == claims, names
        return True

    eventually("only the volumes are left", left, within=60)
    second.apply()
    second.wait_ready(120)
    second.known_hosts.unlink(missing_ok=True)
    shown = second.ssh(people["alice"], f"sacct -X -n -P -o JobName,State -S now-1hour -j {job}").strip()
    assert shown == "before|COMPLETED"
    assert int(second.sbatch(people["alice"], "true")) > int(job)
