"""Where everything lies: the cache, shared by all checkouts, and the state of the running cluster."""

import os
from dataclasses import dataclass
from pathlib import Path

from localkube.plan import Instance

SOURCE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Cache:
    """Things that are costly to make and keep their worth when the cluster goes.

    The cache folder is shared with other tools of the project, so that everything here lies in a folder of its own:
    clean-up must never meet a file that somebody else made.
    """

    root: Path

    @classmethod
    def from_environment(cls) -> "Cache":
        """Follow `LOCALKUBE_CACHE`, else the user's cache folder."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        shared = Path(os.environ.get("LOCALKUBE_CACHE") or home / "slurmcluster-operator")
        return cls(shared.absolute() / "localkube")

    @property
    def families(self) -> Path:
        """Built Go programs, one folder a family and content."""
        return self.root / "go"

    @property
    def toolchains(self) -> Path:
        """Folders with links to every program of one set of families."""
        return self.root / "bin"

    @property
    def images(self) -> Path:
        """Container images that every new cluster starts with."""
        return self.root / "images"

    @property
    def golden(self) -> Path:
        """Ready containerd roots, one for each set of images."""
        return self.root / "golden"

    @property
    def locks(self) -> Path:
        """Lock files, so that two commands never do the same thing at once."""
        return self.root / "locks"


@dataclass(frozen=True)
class State:
    """Files of one running cluster; `down` removes the whole folder."""

    root: Path
    instance: Instance

    @classmethod
    def from_environment(cls) -> "State":
        """Follow `LOCALKUBE_INSTANCE`, and `LOCALKUBE_STATE`, else /var/lib/localkube with the instance's number."""
        instance = Instance.parse(os.environ.get("LOCALKUBE_INSTANCE", ""))
        return cls(Path(os.environ.get("LOCALKUBE_STATE") or f"/var/lib/{instance.name}").absolute(), instance)

    @property
    def cluster(self) -> Path:
        """What this cluster is: its nodes, its programs, and whether it was completed."""
        return self.root / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def resolv_conf(self) -> Path:
        """The resolv.conf that pods with the node's DNS policy get."""
        return self.root / "resolv.conf"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.root / "pki"

    @property
    def volumes(self) -> Path:
        """One folder a dynamically provisioned volume."""
        return self.root / "volumes"

    @property
    def machines(self) -> Path:
        """One folder a machine: the control plane and every node."""
        return self.root / "machines"

    def machine(self, name: str) -> "MachineFolder":
        """Return the folder of one machine."""
        return MachineFolder(self.machines / name)


@dataclass(frozen=True)
class MachineFolder:
    """Files of one machine."""

    root: Path

    @property
    def spec(self) -> Path:
        """What the machine's init is to run."""
        return self.root / "spec.json"

    @property
    def lock(self) -> Path:
        """Locked by the machine's init for as long as it lives: the one proof that it is ours and alive."""
        return self.root / "lock"

    @property
    def status(self) -> Path:
        """Which services run, written by the machine's init."""
        return self.root / "status.json"

    @property
    def logs(self) -> Path:
        """One log a service."""
        return self.root / "logs"

    @property
    def config(self) -> Path:
        """Rendered configuration of the services."""
        return self.root / "config"

    @property
    def run(self) -> Path:
        """What a power cut would wipe: sockets, and network namespaces of pods."""
        return self.root / "run"

    @property
    def containerd(self) -> Path:
        """The root of containerd: images and snapshots."""
        return self.root / "containerd"

    @property
    def images(self) -> Path:
        """Which archive each image of this machine came from, by the image's name."""
        return self.root / "images.json"

    @property
    def containerd_socket(self) -> Path:
        """The address of containerd."""
        return self.run / "containerd.sock"

    def disk(self, path: str) -> Path:
        """Return what the machine sees at this absolute path."""
        return self.root / "disk" / path.strip("/")
