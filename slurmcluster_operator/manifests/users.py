"""The users of the spec as passwd, group and shadow (for libnss-extrausers) and as authorized keys."""

from __future__ import annotations

import zlib
from typing import Final

from slurmcluster_operator.api.parts import SUDO_GROUP, User
from slurmcluster_operator.manifests.cluster import Cluster, Json
from slurmcluster_operator.manifests.objects import config_map
from slurmcluster_operator.model import names

_FIRST_GID: Final = 100_000
_GIDS: Final = 900_000


def group_id(name: str) -> int:
    """Return a group's id: made from the name alone, so that it is the same on every pod and after every edit.

    The range, 100000 to 999999, lies above users' own groups (whose ids are the uids).
    """
    return _FIRST_GID + zlib.crc32(name.encode()) % _GIDS


def group_problems(users: tuple[User, ...]) -> list[str]:
    """Say what the API server cannot see: groups whose ids collide, and groups named like a user."""
    groups = sorted({group for user in users for group in user.groups})
    people = {user.name for user in users}
    problems = [f"users[].groups: {group} is also a user's own group" for group in groups if group in people]
    owners: dict[int, str] = {}
    for group in groups:
        other = owners.setdefault(group_id(group), group)
        if other != group:
            problems.append(f"users[].groups: {other} and {group} would get the same id; rename one of them")
    return problems


def identity(cluster: Cluster) -> dict[str, str]:
    """Return passwd, group and shadow."""
    users = cluster.spec.users
    members: dict[str, list[str]] = {}
    for user in users:
        for group in (*user.groups, *((SUDO_GROUP,) if user.sudo else ())):
            members.setdefault(group, []).append(user.name)
    passwd = [f"{user.name}:x:{user.uid}:{user.uid}::/home/{user.name}:{user.shell}" for user in users]
    groups = [f"{user.name}:x:{user.uid}:" for user in users]
    groups += [f"{group}:x:{group_id(group)}:{','.join(sorted(people))}" for group, people in sorted(members.items())]
    shadow = [f"{user.name}:*:19000:0:99999:7:::" for user in users]
    return {"passwd": _lines(passwd), "group": _lines(groups), "shadow": _lines(shadow)}


def objects(cluster: Cluster) -> list[Json]:
    """Return the ConfigMaps of identities and of public keys."""
    keys = {user.name: _lines(user.ssh_keys) for user in cluster.spec.users if user.ssh_keys}
    return [
        config_map(cluster, cluster.names.users, names.LOGIN, identity(cluster)),
        config_map(cluster, cluster.names.ssh_keys, names.LOGIN, keys),
    ]


def _lines(lines: list[str] | tuple[str, ...]) -> str:
    return "".join(f"{line}\n" for line in lines)
