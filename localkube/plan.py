"""Names, addresses and labels of the cluster: pure, so that every other part agrees on them."""

from dataclasses import dataclass
from typing import Any

from localkube.errors import LocalkubeError

BRIDGE = "localkube0"
PREFIX = "localkube-"
HOST_ADDRESS = "172.30.0.1"
BRIDGE_CIDR = "172.30.0.0/24"
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
SERVICE_API_ADDRESS = "10.96.0.1"
LOAD_BALANCER_FIRST = "172.30.0.200"
LOAD_BALANCER_LAST = "172.30.0.250"
CLUSTER_DOMAIN = "cluster.local"
API_PORT = 6443
API_URL = f"https://{HOST_ADDRESS}:{API_PORT}"
CONTROL_PLANE = "control-plane"

FIRST_NODE = 10
MAX_WORKERS = 100
MAX_GPUS = 16
_GPU_MODELS = (
    ("NVIDIA-H100-80GB-HBM3", "gpu-h100-8x", "81559"),
    ("NVIDIA-A100-SXM4-80GB", "gpu-a100-8x", "81920"),
)
_WORKERS_PER_MODEL = 2


@dataclass(frozen=True)
class Node:
    """One simulated machine: a network namespace with its own container runtime and kubelet."""

    name: str
    number: int
    gpus: int
    labels: tuple[tuple[str, str], ...]

    @property
    def address(self) -> str:
        """The node's address on the bridge."""
        return f"172.30.0.{self.number}"

    @property
    def pod_cidr(self) -> str:
        """The addresses of the pods on this node."""
        return f"10.244.{self.number}.0/24"

    @property
    def namespace(self) -> str:
        """The network namespace, prefixed so that `down` knows it as ours."""
        return f"{PREFIX}{self.name}"

    @property
    def link(self) -> str:
        """The host's end of the cable; interface names have at most 15 characters."""
        return f"lk-{self.name}"

    @property
    def cgroup(self) -> str:
        """The cgroup under which the kubelet keeps its pods."""
        return f"/localkube/{self.name}"


@dataclass(frozen=True)
class Plan:
    """What the cluster consists of."""

    workers: int = 4
    gpus: int = 8

    def __post_init__(self) -> None:
        """Refuse what does not fit the address plan."""
        if not 0 <= self.workers <= MAX_WORKERS:
            raise LocalkubeError(f"--workers must lie between 0 and {MAX_WORKERS}, not {self.workers}")
        if not 0 <= self.gpus <= MAX_GPUS:
            raise LocalkubeError(f"--gpus must lie between 0 and {MAX_GPUS}, not {self.gpus}")

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The system node first, then the workers."""
        system = Node("system-0", FIRST_NODE, 0, (("localkube.dev/role", "system"),))
        return (system, *(self._worker(i) for i in range(self.workers)))

    def node(self, name: str) -> Node:
        """Find a node by name."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise LocalkubeError(f"there is no node {name}", advice=f"The nodes are: {names}.")

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {"workers": self.workers, "gpus": self.gpus}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Plan":
        """Read a plan back from the state folder."""
        return cls(workers=int(value["workers"]), gpus=int(value["gpus"]))

    def _worker(self, index: int) -> Node:
        labels = {
            "localkube.dev/role": "worker",
            "topology.kubernetes.io/region": "local",
            "topology.kubernetes.io/zone": f"local-{'ab'[index % 2]}",
            **(_gpu_labels(index, self.gpus) if self.gpus else {"node.kubernetes.io/instance-type": "cpu"}),
        }
        return Node(f"worker-{index}", FIRST_NODE + 1 + index, self.gpus, tuple(labels.items()))


def _gpu_labels(index: int, gpus: int) -> dict[str, str]:
    """Return the labels that NVIDIA's GPU feature discovery would set, two workers a model in turn."""
    product, instance_type, memory = _GPU_MODELS[index // _WORKERS_PER_MODEL % len(_GPU_MODELS)]
    return {
        "node.kubernetes.io/instance-type": instance_type,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": memory,
    }
