"""The soak's stage: setting the scene up, speaking to its Slurm, and clearing it away."""

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hack import demo, local, ssh
from hack.console import say
from hack.kube import Chart, Kubectl
from hack.local import Kubernetes
from hack.shell import CommandError, capture
from hack.soak import scene

READY_SECONDS: Final = 300
_SYSTEM_NODE: Final = "system-0"
_SSH_SECONDS: Final = 40
_ALIVE: Final = ("-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=3")
"""Options by which ssh notices that the login pod is gone."""


class NoAnswerError(Exception):
    """Slurm, or the way to it, does not answer."""


class Stage:
    """One cluster with the soak's scene on it."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self.env = kubernetes.env
        self._kubernetes = kubernetes
        self.everywhere = Kubectl(self.env, root=local.ROOT)
        self.inside = Kubectl(self.env, scene.NAMESPACE, local.ROOT)
        self.workers: list[str] = []
        self._login: ssh.Login | None = None

    def set_up(self) -> None:
        """Install the operator, grant the workers and make the Slurm cluster; the Kubernetes Jobs come later."""
        self.workers = scene.choose(self.everywhere.get("nodes")["items"])
        apart = {"nodeSelector.localkube\\.dev/role": "system"}
        Chart(local.ROOT, local.chart_values(self._kubernetes) | apart).install(self.env)
        self.everywhere.text("label", "node", *self.workers, f"{scene.FLEET}={scene.CLUSTER}", "--overwrite")
        key = ssh.make_key(local.demo_folder())
        self.inside.apply(*scene.slurm_cluster(key.with_suffix(".pub").read_text()))
        demo.wait_until_ready(self.inside, scene.NAME)
        self._login = self._find_login(key)

    def fill(self) -> None:
        """Let Kubernetes Jobs take every idle worker, with an image that is there."""
        where = ["-n", Chart(local.ROOT).namespace, "get", "deployment", Chart(local.ROOT).release, "-o"]
        image = self.everywhere.text(*where, "jsonpath={.spec.template.spec.containers[0].image}")
        self.everywhere.apply(*scene.kubernetes_jobs(image))

    def tidy(self) -> None:
        """Remove the pods that have ended: hundreds of them would make clearing away slow."""
        ended = ["--field-selector=status.phase=Succeeded", "--wait=false", "--ignore-not-found"]
        self.everywhere.text("-n", scene.OTHERS, "delete", "pods", *ended)

    def clear(self) -> None:
        """Remove all of it but the operator, which needs a moment to give the nodes back."""
        gone = ["--ignore-not-found", "--timeout=200s"]
        for words in (
            # With its namespace going away a Job would try for long to make pods there.
            ["-n", scene.OTHERS, "delete", "job", scene.OTHERS, "--cascade=foreground", *gone],
            ["delete", "namespace", scene.OTHERS, *gone],
            ["delete", "priorityclass", scene.OTHERS, *gone],
            ["-n", scene.NAMESPACE, "delete", "slurmcluster", scene.NAME, *gone],
            ["delete", "namespace", scene.NAMESPACE, *gone],
            ["label", "node", "-l", f"{scene.FLEET}={scene.CLUSTER}", f"{scene.FLEET}-"],
        ):
            try:
                self.everywhere.text(*words)
            except CommandError as error:
                # On a new cluster there is no SlurmCluster, nor the kind of it.
                if "the server doesn't have a resource type" not in error.output:
                    say(str(error))

    def slurm(self, command: str) -> str:
        """Run a Slurm command in slurmctld's pod. Raises NoAnswerError."""
        return self._run(f"{scene.NAME}-controller-0", "slurmctld", command)

    def as_user(self, command: str, stdin: str | None = None) -> str:
        """Run a command on a login pod, as the user. Raises NoAnswerError."""
        assert self._login is not None, "the scene is not set up"  # noqa: S101
        words = [*self._login.command(scene.USER, *_ALIVE), command]
        return self._answer(lambda: capture(words, stdin=stdin, timeout=_SSH_SECONDS))

    def register(self) -> None:
        """Make every slurmd tell slurmctld what runs there. slurmctld asks for that itself, twice an hour.

        Until then a job counts as running whose end slurmctld has forgotten, because it was killed before it had saved
        that. It believes it only later than half a minute after its own start, and runs the job again then.
        """
        selector = ["-l", f"app.kubernetes.io/component=slurmd,app.kubernetes.io/instance={scene.NAME}"]
        for name in self.inside.text("get", "pods", *selector, "-o", "jsonpath={.items[*].metadata.name}").split():
            with contextlib.suppress(NoAnswerError):
                self._run(name, "slurmd", "pkill -HUP -f '^slurmd '")

    def pod(self, namespace: str, selector: str) -> dict[str, Any]:
        """Return one pod that carries labels and is not being deleted; empty if there is none."""
        pods = self.everywhere.get("-n", namespace, "pods", "-l", selector)["items"]
        live = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
        return dict(min(live, key=lambda one: str(one["metadata"]["name"]))) if live else {}

    def _find_login(self, key: Path) -> ssh.Login:
        address = self.inside.get("slc", scene.NAME)["status"]["endpoints"]["login"]
        host, port = ssh.split_address(address)
        known = local.demo_folder() / f"known_hosts-soak-{host}"  # another soak may run on another local cluster
        known.write_text(ssh.known_hosts(host, port, demo.host_keys(self.inside, scene.NAME)))
        return ssh.Login(host, port, key, known)

    def _run(self, pod: str, container: str, command: str) -> str:
        words = ["exec", pod, "-c", container, "--", "sh", "-c", command]
        return self._answer(lambda: capture(["kubectl", "-n", scene.NAMESPACE, *words], env=self.env, timeout=30))

    @staticmethod
    def _answer(ask: Callable[[], str]) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            try:
                return ask()
            except CommandError as error:
                raise NoAnswerError(str(error)) from error
        raise NoAnswerError("no answer in time")
