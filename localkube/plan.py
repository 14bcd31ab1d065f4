"""Names, addresses and labels of the cluster: pure, so that every other part agrees on them."""

from dataclasses import dataclass, field
from typing import Any

from localkube.errors import LocalkubeError

CLUSTER_DOMAIN = "cluster.local"
API_PORT = 6443
CONTROL_PLANE = "control-plane"

MAX_INSTANCE = 9
API_NUMBER = 1
FIRST_NODE = 10
MAX_WORKERS = 100
MAX_GPUS = 16
_LINK_NAME = 15
_GPU_MODELS = (
    ("NVIDIA-H100-80GB-HBM3", "gpu-h100-8x", "81559"),
    ("NVIDIA-A100-SXM4-80GB", "gpu-a100-8x", "81920"),
)
_WORKERS_PER_MODEL = 2


@dataclass(frozen=True)
class Instance:
    """One of the clusters that may run beside each other: its number makes every name and address they could share.

    Number 0 has the plain names: cgroup `localkube`, links `lk-…`; number 3 has `localkube3` and `lk3-…`.
    """

    number: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers for which there are no addresses."""
        if not 0 <= self.number <= MAX_INSTANCE:
            raise LocalkubeError(f"LOCALKUBE_INSTANCE must lie between 0 and {MAX_INSTANCE}, not {self.number}")

    @classmethod
    def parse(cls, text: str) -> "Instance":
        """Read a number as a person writes it; nothing means 0."""
        if text and not text.isdecimal():
            raise LocalkubeError(f"LOCALKUBE_INSTANCE must be a number from 0 to {MAX_INSTANCE}, not {text!r}")
        return cls(int(text or "0"))

    @property
    def name(self) -> str:
        """The name of its cgroup, and the beginning of the names of its network namespaces."""
        return f"localkube{self._suffix}"

    @property
    def bridge(self) -> str:
        """The bridge that connects its machines with each other and with the host."""
        return f"localkube{self.number}"

    @property
    def bridge_cidr(self) -> str:
        """The addresses of the host, the machines and the load balancers."""
        return f"{self.address(0)}/24"

    @property
    def pod_cidr(self) -> str:
        """The addresses of its pods."""
        return f"{self._pods}.0.0/16"

    @property
    def service_cidr(self) -> str:
        """The addresses of its Services."""
        return f"{self._services}.0.0/16"

    @property
    def cidrs(self) -> tuple[str, ...]:
        """All its addresses."""
        return self.bridge_cidr, self.pod_cidr, self.service_cidr

    @property
    def api_address(self) -> str:
        """The control plane's address: API server, DNS, and the host's way to Services."""
        return self.address(API_NUMBER)

    @property
    def api_url(self) -> str:
        """Where the API server is."""
        return f"https://{self.api_address}:{API_PORT}"

    @property
    def host_address(self) -> str:
        """The host's own address on the bridge."""
        return self.address(2)

    @property
    def service_api_address(self) -> str:
        """The API server's address for pods."""
        return f"{self._services}.0.1"

    @property
    def load_balancers(self) -> tuple[str, str]:
        """The first and the last address that Services of type LoadBalancer may get."""
        return self.address(200), self.address(250)

    @property
    def load_balancer_cidr(self) -> str:
        """The smallest network with those addresses in it, and with no machine."""
        return f"{self.address(192)}/26"

    def address(self, number: int) -> str:
        """Return an address on the bridge."""
        return f"172.30.{self.number}.{number}"

    def mac(self, number: int) -> str:
        """Return the hardware address of a machine, whose neighbours must know it again after a restart."""
        return f"02:6c:6b:00:{self.number:02x}:{number:02x}"

    def pods_of(self, number: int) -> str:
        """Return the addresses of the pods of one node."""
        return f"{self._pods}.{number}.0/24"

    def namespace(self, machine: str) -> str:
        """Return the network namespace of a machine, whose prefix tells `down` that it is ours."""
        return f"{self.name}-{machine}"

    def link(self, machine: str) -> str:
        """Return the host's end of a machine's cable; the kernel takes no longer names."""
        return f"lk{self._suffix}-{machine}"[:_LINK_NAME]

    @property
    def _suffix(self) -> str:
        return str(self.number or "")

    @property
    def _pods(self) -> str:
        return f"10.{244 + self.number}"

    @property
    def _services(self) -> str:
        return f"10.{96 + self.number}"


@dataclass(frozen=True)
class Node:
    """One simulated machine: a network namespace with its own container runtime and kubelet."""

    instance: Instance
    name: str
    number: int
    gpus: int
    labels: tuple[tuple[str, str], ...]

    @property
    def address(self) -> str:
        """The node's address on the bridge."""
        return self.instance.address(self.number)

    @property
    def pod_cidr(self) -> str:
        """The addresses of the pods on this node."""
        return self.instance.pods_of(self.number)

    @property
    def cgroup(self) -> str:
        """The cgroup under which the kubelet keeps its pods."""
        return f"/{self.instance.name}/{self.name}"


@dataclass(frozen=True)
class Plan:
    """What the cluster consists of."""

    workers: int = 4
    gpus: int = 8
    instance: Instance = field(default_factory=Instance)

    def __post_init__(self) -> None:
        """Refuse what does not fit the address plan."""
        if not 0 <= self.workers <= MAX_WORKERS:
            raise LocalkubeError(f"--workers must lie between 0 and {MAX_WORKERS}, not {self.workers}")
        if not 0 <= self.gpus <= MAX_GPUS:
            raise LocalkubeError(f"--gpus must lie between 0 and {MAX_GPUS}, not {self.gpus}")

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The system node first, then the workers."""
        system = Node(self.instance, "system-0", FIRST_NODE, 0, (("localkube.dev/role", "system"),))
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
        return {"workers": self.workers, "gpus": self.gpus, "instance": self.instance.number}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Plan":
        """Read a plan back from the state folder."""
        return cls(int(value["workers"]), int(value["gpus"]), Instance(int(value["instance"])))

    def _worker(self, index: int) -> Node:
        labels = {
            "localkube.dev/role": "worker",
            "topology.kubernetes.io/region": "local",
            "topology.kubernetes.io/zone": f"local-{'ab'[index % 2]}",
            **(_gpu_labels(index, self.gpus) if self.gpus else {"node.kubernetes.io/instance-type": "cpu"}),
        }
        return Node(self.instance, f"worker-{index}", FIRST_NODE + 1 + index, self.gpus, tuple(labels.items()))


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
