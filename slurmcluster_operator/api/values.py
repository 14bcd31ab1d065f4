"""Typed strings of the resource: names, quantities, durations, keys."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated

from pydantic import AfterValidator

from slurmcluster_operator.api.schema import Pattern

_MIB = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

PoolName = Annotated[
    str,
    Pattern(
        r"[a-z](?:[a-z0-9-]{0,18}[a-z0-9])?",
        "must be 1 to 20 lower-case letters, digits or '-', beginning with a letter: it makes Slurm's node names, as in h100-3",
        20,
    ),
]
"""Prefix of Slurm node names: ``h100`` makes ``h100-0``."""

ClusterName = Annotated[
    str,
    Pattern(
        r"[a-z0-9](?:[a-z0-9_-]{0,38}[a-z0-9])?",
        "must be 1 to 40 lower-case letters, digits, '-' or '_': it names the cluster in slurmdbd",
        40,
    ),
]

PartitionName = Annotated[
    str,
    Pattern(r"[A-Za-z][A-Za-z0-9_-]{0,62}", "must be letters, digits, '-' or '_', beginning with a letter", 63),
]

UserName = Annotated[
    str,
    Pattern(
        r"[a-z_][a-z0-9_-]{0,30}",
        "must be a POSIX user name: lower-case letters, digits, '-' or '_', beginning with a letter or '_'",
        31,
    ),
]

GroupName = Annotated[
    str,
    Pattern(
        r"[a-z_][a-z0-9_-]{0,30}",
        "must be a POSIX group name: lower-case letters, digits, '-' or '_', beginning with a letter or '_'",
        31,
    ),
]

Token = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}",
        "must be letters, digits, '.', '-' or '_', beginning with a letter or digit",
        63,
    ),
]
"""A word that Slurm takes as it is: a GPU type, a feature."""

MemorySize = Annotated[
    str,
    Pattern(
        r"[1-9][0-9]{0,8}(?:Mi|Gi|Ti)",
        "must be a whole number of Mi, Gi or Ti, as in 1000Gi (Slurm counts MiB, so GB would be silently wrong)",
        16,
    ),
]

StorageSize = Annotated[
    str, Pattern(r"[1-9][0-9]{0,8}(?:Mi|Gi|Ti)", "must be a whole number of Mi, Gi or Ti, as in 100Gi", 16)
]

Duration = Annotated[
    str,
    Pattern(r"[1-9][0-9]{0,6}(?:s|m|h|d)", "must be a positive whole number of s, m, h or d, as in 10m", 16),
]

MaxUnavailable = Annotated[
    str,
    Pattern(r"[1-9][0-9]{0,4}|[1-9][0-9]?%|100%", "must be a positive number of nodes or a percentage, as in 10%", 5),
]

TimeLimit = Annotated[
    str,
    Pattern(
        r"[1-9][0-9]{0,6}(?:s|m|h|d)|UNLIMITED",
        "must be a positive whole number of s, m, h or d, as in 2d, or UNLIMITED",
        16,
    ),
]

ConfValue = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9_.,:;=/@%+*()\[\]|!?&^~<>{}-]{1,1024}",
        "must be one value without spaces, quotes, '#' or line breaks: slurm.conf reads what follows a space as another key",
        1024,
    ),
]
"""The right-hand side of one slurm.conf key. Slurm splits lines at white space, so none is allowed."""

DnsName = Annotated[
    str,
    Pattern(
        r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", "must be a DNS name: lower-case letters, digits, '-' or '.'", 253
    ),
]

ShellPath = Annotated[str, Pattern(r"/[A-Za-z0-9_./-]{1,126}", "must be an absolute path", 127)]


def _check_key_body(line: str) -> str:
    """Refuse a key whose base64 body does not decode or names another algorithm than its first word.

    An OpenSSH public key is ``algorithm base64 [comment]``, and the body begins with the algorithm again, as a
    length-prefixed string (RFC 4253, section 6.6).
    """
    algorithm, body = line.split(" ")[:2]
    try:
        blob = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("is not an OpenSSH public key: its second word is not base64") from error
    length = int.from_bytes(blob[:4], "big")
    if blob[4 : 4 + length] != algorithm.encode():
        raise ValueError("is not an OpenSSH public key: its body does not belong to its algorithm")
    return line


SshKey = Annotated[
    str,
    Pattern(
        # The body of a key begins with its own algorithm's name, length-prefixed: its base64 prefix is a constant.
        r"(?:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5|ssh-rsa AAAAB3NzaC1yc2E|ecdsa-sha2-nistp(?:256|384|521) AAAAE2VjZHNhLXNoYTItbmlzdHA"
        r"|sk-ssh-ed25519@openssh\.com AAAAGnNrLXNzaC1lZDI1NTE5|sk-ecdsa-sha2-nistp256@openssh\.com AAAAInNrLWVjZHNhLXNoYTItbmlzdHA)"
        r"[A-Za-z0-9+/]{20,16000}={0,2}(?: [ -~]{0,255})?",
        "must be one OpenSSH public key, as ssh-keygen writes it: 'ssh-ed25519 AAAA… comment'",
        16384,
    ),
    AfterValidator(_check_key_body),
]


def mebibytes(size: str) -> int:
    """Turn a ``MemorySize`` into MiB, Slurm's unit of memory."""
    return int(size[:-2]) * _MIB[size[-2:]]


def seconds(duration: str) -> int:
    """Turn a ``Duration`` into seconds."""
    return int(duration[:-1]) * _SECONDS[duration[-1]]


def slurm_time(limit: str) -> str:
    """Turn a ``TimeLimit`` into what slurm.conf reads: ``days-hours:minutes:seconds`` or ``UNLIMITED``."""
    if limit == "UNLIMITED":
        return limit
    total = seconds(limit)
    days, rest = divmod(total, 86400)
    return f"{days}-{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"


def split_node_name(name: str) -> tuple[str, int] | None:
    """Split a Slurm node name into pool and ordinal, or return None for a name that no pool makes."""
    match = re.fullmatch(r"([a-z][a-z0-9-]*)-(0|[1-9][0-9]*)", name)
    return (match[1], int(match[2])) if match else None
