"""The demo, from nothing to finished jobs: ``make demo``.

With ``KUBECONFIG_DEMO`` it runs on a cluster that is there already; docs/operations.md tells how.
"""

import base64
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Self

from hack import jobs, local, ssh
from hack.console import INDENT, Steps, say
from hack.kube import Chart, Kubectl, condition
from hack.local import BuildFailedError, Kubernetes
from hack.shell import CommandError
from hack.together import end_on_terminate

NAMESPACE: Final = "slurm-demo"
NAME: Final = "demo"
FLEET: Final = f"slurmcluster.dev/fleet={NAMESPACE}.{NAME}"
KEYS_SECRET: Final = "demo-ssh-keys"  # noqa: S105 - the name of a Secret
EXAMPLE: Final = "examples/demo.yaml"
USERS: Final = ("alice", "bob")
READY_SECONDS: Final = 300
ACCOUNTING_SECONDS: Final = 30
ARRAY_TASKS: Final = 4
COLUMNS: Final = "JobID%-6,JobName%-9,User%-6,Partition%9,NNodes%6,AllocTRES%58,State,Elapsed"

_ADVICE: Final = f"""\
What the operator says about it:
{INDENT}kubectl -n {NAMESPACE} get slc -o wide
{INDENT}kubectl -n {NAMESPACE} describe slc {NAME}
{INDENT}kubectl -n {NAMESPACE} get pods -o wide
{INDENT}kubectl -n slurmcluster-system logs deployment/slurmcluster-operator
docs/operations.md lists the reasons and what to do about each."""


class DemoError(Exception):
    """Something is not as the demo needs it."""


@dataclass(frozen=True)
class Options:
    """What the environment asks for."""

    kubeconfig: str = ""
    registry: str = ""
    nodes: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the options; a cluster of one's own needs nodes named, because granting them is a decision."""
        kubeconfig = environment.get("KUBECONFIG_DEMO", "")
        nodes = tuple(name.strip() for name in environment.get("DEMO_NODES", "").split(",") if name.strip())
        if kubeconfig and not nodes:
            raise DemoError("KUBECONFIG_DEMO is set: name the nodes that Slurm may use, DEMO_NODES=node-1,node-2")
        return cls(kubeconfig, environment.get("DEMO_REGISTRY", ""), nodes)


class Demo:
    """The steps, in order."""

    def __init__(self, options: Options, steps: Steps) -> None:
        self._options = options
        self._steps = steps

    def run(self) -> None:
        """Do all of it; raises at the first thing that is not as it should be."""
        kubernetes = self._kubernetes()
        kubectl = Kubectl(kubernetes.env, NAMESPACE, local.ROOT)
        with self._steps.step("Install the operator with Helm"):
            self._install(kubernetes)
        with self._steps.step("Grant nodes to the Slurm cluster, and give it the users' public key"):
            self._grant(kubernetes)
            key = ssh.make_key(local.demo_folder())
            kubectl.apply(*namespace_and_keys(NAMESPACE, key.with_suffix(".pub").read_text()))
            say(f"{INDENT}Secret {KEYS_SECRET}: the key {key}.pub for {' and '.join(USERS)}")
        with self._steps.step("Create the Slurm cluster, and wait until an sbatch would run"):
            kubectl.show("apply", "-f", EXAMPLE)
            wait_until_ready(kubectl, NAME)
            kubectl.show("get", "slc", NAME)
            kubectl.show("get", "pods", "-o", "wide")
        with ExitStack() as stack:
            login = self._login(stack, kubectl, kubernetes)
            self._work(login, jobs.choose_target(kubectl.get("slc", NAME)["spec"]))
        self._farewell(login, kubernetes)

    def _kubernetes(self) -> Kubernetes:
        if self._options.kubeconfig:
            return local.existing(self._options.kubeconfig)
        with self._steps.step("Build what is missing: a Kubernetes for this machine, and the images"):
            local.build()
        with self._steps.step("Start Kubernetes on this machine, with the images in it"):
            return local.up()

    def _install(self, kubernetes: Kubernetes) -> None:
        values = {"registry": self._options.registry} if self._options.registry else local.chart_values(kubernetes)
        Chart(local.ROOT, values).install(kubernetes.env)

    def _grant(self, kubernetes: Kubernetes) -> None:
        everywhere = Kubectl(kubernetes.env)
        nodes: Sequence[str] = self._options.nodes
        if kubernetes.is_local:
            nodes = everywhere.names("nodes", "localkube.dev/role=worker")
        granted = set(everywhere.names("nodes", FLEET))
        if missing := [name for name in nodes if name not in granted]:
            everywhere.show("label", "node", *missing, FLEET, "--overwrite")
        if done := sorted(granted.intersection(nodes)):
            say(f"{INDENT}granted before ({FLEET}): {', '.join(done)}")

    def _login(self, stack: ExitStack, kubectl: Kubectl, kubernetes: Kubernetes) -> ssh.Login:
        with self._steps.step("Find the way in"):
            address = kubectl.get("slc", NAME)["status"]["endpoints"]["login"]
            say(f"{INDENT}status.endpoints.login is {address}")
            way = reach(address)
            served = [way] if way else []
            forward = ""
            if way is None:
                say(f"{INDENT}it cannot be reached from here: going through kubectl port-forward")
                way = stack.enter_context(ssh.forwarded(f"{NAME}-login", NAMESPACE, kubernetes.env))
                forward = f"kubectl -n {NAMESPACE} port-forward service/{NAME}-login {ssh.FORWARD_PORT}:ssh"
                served = [way, (way[0], ssh.FORWARD_PORT)]
            keys = host_keys(kubectl, NAME)
            known = local.demo_folder() / "known_hosts"
            known.write_text("".join(ssh.known_hosts(*one, keys) for one in served))
            say(f"{INDENT}its host keys, from Secret {NAME}-ssh-host-keys, are in {known}")
            return ssh.Login(*way, local.demo_folder() / "id_ed25519", known, forward)

    def _work(self, login: ssh.Login, target: jobs.Target) -> None:
        alice, bob = USERS
        finished = []
        with self._steps.step(f"{alice}: a job on {target.nodes} nodes, by sbatch"):
            finished.append(_gpu_job(login, alice, target))
        with self._steps.step(f"{alice}: an interactive shell on a node, by srun --pty"):
            _interactive(login, alice, target)
        with self._steps.step(f"{alice}: a job array, and the queue meanwhile"):
            finished.append(_array(login, alice, target))
        with self._steps.step(f"{bob}: a job"):
            finished.append(_wrapped(login, bob, target))
        with self._steps.step("Nodes and accounting"):
            login.run(alice, "sinfo")
            _accounting(login, alice, finished)

    def _farewell(self, login: ssh.Login, kubernetes: Kubernetes) -> None:
        say(f"\nAll of it worked.\n\n{self._steps.summary()}\n\nTo go on:")
        path = f" PATH={kubernetes.bin}:$PATH" if kubernetes.bin else ""
        say(f"{INDENT}export KUBECONFIG={kubernetes.kubeconfig}{path}")
        for command in login.for_people(USERS[0]):
            say(f"{INDENT}{command}")
        say(f"{INDENT}kubectl -n {NAMESPACE} get slc,pods -o wide")
        if kubernetes.is_local:
            say(f"{INDENT}make kube-down{' ' * 20}# remove all of it")
        else:
            say(f"{INDENT}kubectl delete namespace {NAMESPACE}{' ' * 8}# remove the Slurm cluster with its volumes")


def wait_until_ready(kubectl: Kubectl, name: str, limit: float = READY_SECONDS) -> None:
    """Wait for condition Ready, and show its reasons on the way."""
    command = ["wait", "--for=condition=Ready", f"slc/{name}", f"--timeout={limit:.0f}s"]
    say(f"{INDENT}$ kubectl -n {kubectl.namespace} {' '.join(command)}")
    words = ["kubectl", "-n", kubectl.namespace, *command]
    environment = {**os.environ, **kubectl.env}
    start = time.monotonic()
    told = ""
    with subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as waiting:
        while waiting.poll() is None:
            message = condition(kubectl.get("slc", name), "Ready").get("message", "").partition(" (also not")[0]
            if message not in {"", told}:
                say(f"{INDENT}[{time.monotonic() - start:5.1f} s] {message}")
                told = message
            time.sleep(0.5)
        output = (waiting.stdout.read() if waiting.stdout else "").strip()
    if waiting.returncode:
        kubectl.show("get", "slc", name, "-o", "wide")
        kubectl.show("get", "pods", "-o", "wide")
        raise DemoError(f"SlurmCluster {name} is not Ready: {told or output}")
    say(f"{INDENT}{output}")


def reach(address: str, limit: float = 10) -> tuple[str, int] | None:
    """Return host and port if something answers there, or None after a while."""
    host, port = ssh.split_address(address)
    deadline = time.monotonic() + limit
    while not ssh.reachable(host, port):
        if time.monotonic() > deadline:
            return None
        time.sleep(0.3)
    return host, port


def host_keys(kubectl: Kubectl, name: str) -> list[str]:
    """Return the public host keys of a SlurmCluster's login pods."""
    data = kubectl.get("secret", f"{name}-ssh-host-keys")["data"]
    return [base64.b64decode(value).decode() for key, value in sorted(data.items()) if key.endswith(".pub")]


def namespace_and_keys(namespace: str, public_key: str) -> tuple[dict[str, Any], ...]:
    """Return the namespace and, in it, the Secret from which the login pods take the users' keys."""
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": KEYS_SECRET, "namespace": namespace},
            "stringData": dict.fromkeys(USERS, public_key),
        },
    )


def _gpu_job(login: ssh.Login, user: str, target: jobs.Target) -> str:
    script = jobs.gpu_job(target)
    login.quietly(user, "cat > two-nodes.sh", stdin=script)
    login.run(user, "cat two-nodes.sh")
    job = jobs.job_id(login.run(user, "sbatch two-nodes.sh"))
    login.quietly(user, jobs.wait_for(job))
    say(f"{INDENT}-> {jobs.check_gpu_job(login.run(user, f'cat two-nodes-{job}.out'), target)}")
    return job


def _interactive(login: ssh.Login, user: str, target: jobs.Target) -> None:
    command = f"srun {_where(target, gpus=1)} --pty bash"
    screen = login.converse(user, command, ["hostname", "tty", "echo GPU $CUDA_VISIBLE_DEVICES", "exit"])
    jobs.check_interactive(screen, target)


def _array(login: ssh.Login, user: str, target: jobs.Target) -> str:
    work = "sleep 2; echo task $SLURM_ARRAY_TASK_ID of job $SLURM_ARRAY_JOB_ID on $(hostname)"
    options = f"--job-name=array --array=0-{ARRAY_TASKS - 1} --output=array-%A-%a.out {_where(target, gpus=1)}"
    job = jobs.job_id(login.run(user, f"sbatch {options} --wrap='{work}'"))
    login.quietly(user, jobs.wait_for(job, "R"))
    login.run(user, "squeue")
    login.quietly(user, jobs.wait_for(job))
    jobs.check_array(login.run(user, f"cat array-{job}-*.out"), ARRAY_TASKS)
    return job


def _wrapped(login: ssh.Login, user: str, target: jobs.Target) -> str:
    work = 'echo "$(id -un), uid $(id -u), on $(hostname)"'
    job = jobs.job_id(
        login.run(user, f"sbatch --job-name=hello --output=hello-%j.out {_where(target)} --wrap='{work}'")
    )
    login.quietly(user, jobs.wait_for(job))
    output = login.run(user, f"cat hello-{job}.out")
    if not output.startswith(f"{user}, uid "):
        raise jobs.UnexpectedOutputError(f"{user}'s job should have run as {user}; it printed: {output.strip()}")
    return job


def _accounting(login: ssh.Login, user: str, finished: list[str]) -> None:
    """Wait until slurmdbd has it all: slurmctld sends its records in batches."""
    listed = ",".join(finished)
    deadline = time.monotonic() + ACCOUNTING_SECONDS
    while left := jobs.unfinished(login.quietly(user, f"sacct -a -X -n -P -j {listed} -o JobID,State"), finished):
        if time.monotonic() > deadline:
            login.run(user, f"sacct -a -X -j {listed}")
            raise jobs.UnexpectedOutputError(f"sacct should call these jobs COMPLETED: {', '.join(left)}")
        time.sleep(0.5)
    login.run(user, f"sacct -a -X -j {listed} -o {COLUMNS}")


def _where(target: jobs.Target, *, gpus: int = 0) -> str:
    words = [f"--partition={target.partition}", f"--constraint={target.pool}", target.gres(gpus) if gpus else ""]
    return " ".join(word for word in words if word)


def main() -> int:
    """Run the demo; return whether all of it worked."""
    end_on_terminate()
    steps = Steps()
    try:
        Demo(Options.from_environment(os.environ), steps).run()
    except (BuildFailedError, CommandError, DemoError, jobs.UnexpectedOutputError) as error:
        say(f"\nThe demo did not come to its end. {error}\n\n{_ADVICE}")
        if steps.done:
            say(f"\n{steps.summary()}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
