"""What the cluster changes on the machine itself, noted down so that `down` can undo it."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from localkube.errors import LocalkubeError
from localkube.locks import exclusive
from localkube.machines import KEPT_FOLDERS, PRIVATE_FOLDERS

_LOCK = Path("/run/lock/localkube")
# What kubelets ask for together is more than a usual machine allows one user.
_LIMITS = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 524288}
# These belong to the whole machine; kubelets set all but the limits.
_SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    *_LIMITS,
)


def require_root() -> None:
    """Network namespaces, mounts and cgroups take root."""
    if os.geteuid() != 0:
        raise LocalkubeError("root is needed", advice="Run the command with sudo -E.")


def changing() -> AbstractContextManager[None]:
    """Let one instance at a time look at what belongs to the whole machine, and change it."""
    return exclusive(_LOCK, "changing this machine")


def boot_id() -> str:
    """Name this boot of the machine: what was started under another one is gone for certain."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def sysctls() -> dict[str, str]:
    """Return the machine-wide settings that a cluster changes."""
    return {name: Path("/proc/sys", name).read_text().strip() for name in _SYSCTLS}


def raise_limits() -> None:
    """Allow what the kubelets of several clusters need; what allows more stays."""
    for name, least in _LIMITS.items():
        limit = Path("/proc/sys", name)
        if int(limit.read_text()) < least:
            limit.write_text(str(least))


def restore_sysctls(saved: dict[str, str]) -> None:
    """Set them back."""
    for name, value in saved.items():
        if Path("/proc/sys", name).read_text().strip() != value:
            Path("/proc/sys", name).write_text(value)


def create_mount_points() -> list[str]:
    """Make the folders over which machines mount their own; return the ones that were not there."""
    made = [path for path in (*PRIVATE_FOLDERS, *KEPT_FOLDERS) if not Path(path).is_dir()]
    for path in made:
        Path(path).mkdir(parents=True)
    return made


def remove_folders(folders: list[str]) -> None:
    """Remove folders that were made here, unless somebody has put something into them."""
    for path in folders:
        if Path(path).is_dir() and not any(Path(path).iterdir()):
            Path(path).rmdir()


def mounts_under(folder: Path) -> list[str]:
    """Return the mount points below a folder, the deepest first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)
