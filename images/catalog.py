"""Which images there are and what each is made from."""

from dataclasses import dataclass, field
from typing import Final

REGISTRY: Final = "docker.io/slurmcluster"

MARIADB_VERSION: Final = "11.8"
SUITES: Final = {"26.05": "forky", "24.11": "trixie"}
"""The Debian release that carries a version of Slurm."""
SLURM_VERSIONS: Final = tuple(SUITES)


@dataclass(frozen=True)
class Image:
    """One image: a Dockerfile, a target in it and the arguments that make it this one."""

    name: str
    tag: str
    suite: str
    dockerfile: str
    context: str
    inputs: tuple[str, ...]
    """What the Dockerfile copies, from the repository's root: files and folders."""
    target: str | None = None
    args: dict[str, str] = field(default_factory=dict)
    needs_https: bool = False
    """The build fetches over HTTPS and has to trust what this machine trusts."""

    @property
    def reference(self) -> str:
        """The name under which Kubernetes finds it."""
        return f"{REGISTRY}/{self.name}:{self.tag}"


def base_reference(suite: str) -> str:
    """Return the name that the Dockerfiles' FROM lines use."""
    return f"docker.io/library/debian:{suite}-slim"


def _slurm_images(version: str) -> list[Image]:
    common = ("images/slurm/rootfs",)
    login = (*common, "images/slurm/rootfs-login", "slurmcluster_operator/explain")
    copied = {"slurm": common, "slurmd": common, "login": login}
    return [
        Image(
            name=name,
            tag=version,
            suite=SUITES[version],
            dockerfile="images/slurm/Dockerfile",
            context=".",
            inputs=inputs,
            target=name,
            args={"SLURM_VERSION": version, "DEBIAN_SUITE": SUITES[version]},
        )
        for name, inputs in copied.items()
    ]


def catalog(slurm_version: str) -> list[Image]:
    """Return every image for one version of Slurm."""
    mariadb = Image(
        name="mariadb",
        tag=MARIADB_VERSION,
        suite="trixie",
        dockerfile="images/mariadb/Dockerfile",
        context="images/mariadb",
        inputs=("images/mariadb/rootfs",),
        args={"MARIADB_VERSION": MARIADB_VERSION},
    )
    operator = Image(
        name="operator",
        tag="dev",
        suite="trixie",
        dockerfile="images/operator/Dockerfile",
        context=".",
        inputs=("requirements.lock", "slurmcluster_operator", "templates"),
        needs_https=True,
    )
    return [*_slurm_images(slurm_version), mariadb, operator]
