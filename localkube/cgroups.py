"""The cgroups under which the kubelets keep their pods, for both versions of cgroups."""

import os
import time
from pathlib import Path

from localkube.plan import Instance, Node

ROOT = Path("/sys/fs/cgroup")
_ATTEMPTS = 50


def hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the mount points of all hierarchies: one with cgroup v2, one a controller with v1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())


def create(node: Node, root: Path = ROOT) -> None:
    """Make a node's cgroup in every hierarchy."""
    for hierarchy in hierarchies(root):
        parent = hierarchy
        for part in Path(node.cgroup.lstrip("/")).parts:
            _delegate(parent)
            child = parent / part
            child.mkdir(exist_ok=True)
            _inherit_cpuset(parent, child)
            parent = child
        _delegate(parent)


def remove(instance: Instance, name: str = "", root: Path = ROOT) -> None:
    """Remove the cgroups of one node or of the whole instance; processes that just ended may hold them for a moment."""
    for hierarchy in hierarchies(root):
        top = hierarchy / instance.name / name
        for attempt in range(_ATTEMPTS):
            try:
                _remove_tree(top)
                break
            except OSError:
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(0.1)


def _delegate(folder: Path) -> None:
    """With cgroup v2, let the children use every controller."""
    controllers = folder / "cgroup.controllers"
    if controllers.exists():
        for controller in controllers.read_text().split():
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _inherit_cpuset(parent: Path, child: Path) -> None:
    """With cgroup v1, a new cpuset is empty and takes no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (child / name).exists() and not (child / "cgroup.controllers").exists():
            (child / name).write_text((parent / name).read_text())


def _remove_tree(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        Path(folder).rmdir()
