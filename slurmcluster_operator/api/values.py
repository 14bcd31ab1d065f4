"""Typed strings of the resource: names, quantities, durations, keys."""

from __future__ import annotations

import base64
import binascii
import functools
from typing import Annotated, Final

from pydantic import AfterValidator

from slurmcluster_operator.api.schema import Check, Pattern

_MIB = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

PoolName = Annotated[
    str,
    Pattern(
        r"[a-z](?:[a-z0-9-]{0,18}[a-z0-9])?",
        "must be 1 to 20 lower-case letters, digits or '-', beginning with a letter and not ending with '-':"
        " it makes Slurm's node names, as in h100-3",
        32,
    ),
]
"""Prefix of Slurm node names: ``h100`` makes ``h100-0``."""

ClusterName = Annotated[
    str,
    Pattern(
        r"[a-z0-9](?:[a-z0-9_-]{0,38}[a-z0-9])?",
        "must be 1 to 40 lower-case letters, digits, '-' or '_': it names the cluster in slurmdbd",
        63,
    ),
]

PartitionName = Annotated[
    str,
    Pattern(
        r"[A-Za-z][A-Za-z0-9_-]{0,62}",
        "must be 1 to 63 letters, digits, '-' or '_', beginning with a letter",
        63,
    ),
]

UserName = Annotated[
    str,
    Pattern(
        r"[a-z_][a-z0-9_-]{0,30}",
        "must be a POSIX user name: 1 to 31 lower-case letters, digits, '-' or '_', beginning with a letter or '_'",
        63,
    ),
]

GroupName = Annotated[
    str,
    Pattern(
        r"[a-z_][a-z0-9_-]{0,30}",
        "must be a POSIX group name: 1 to 31 lower-case letters, digits, '-' or '_', beginning with a letter or '_'",
        63,
    ),
]

Token = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}",
        "must be 1 to 63 letters, digits, '.', '-' or '_', beginning with a letter or digit",
        63,
    ),
]
"""A word that Slurm takes as it is: a GPU type, a feature."""

_SIZE: Final = r"[1-9][0-9]{0,8}Mi|[1-9][0-9]{0,6}Gi|[1-9][0-9]{0,3}Ti"

MemorySize = Annotated[
    str,
    Pattern(
        _SIZE,
        "must be a whole number of Mi, Gi or Ti, as in 1000Gi (Slurm counts MiB, so GB would be silently wrong)",
        32,
    ),
]

StorageSize = Annotated[str, Pattern(_SIZE, "must be a whole number of Mi, Gi or Ti, as in 100Gi", 32)]

_DURATION: Final = r"[1-9][0-9]{0,6}s|[1-9][0-9]{0,5}m|[1-9][0-9]{0,4}h|[1-9][0-9]{0,3}d"

Duration = Annotated[
    str, Pattern(_DURATION, "must be a positive whole number of s, m, h or d, at most 9999d, as in 10m", 32)
]

StartTimeout = Annotated[
    str,
    Pattern(
        r"[1-9][0-9]{0,3}s|[1-9][0-9]{0,2}m|[1-9]h|1[0-8]h",
        # ResumeTimeout is a 16-bit number of seconds.
        "must be a positive whole number of s, m or h, at most 9999s, 999m or 18h, as in 20m",
        32,
    ),
]

TimeLimit = Annotated[
    str,
    Pattern(
        f"{_DURATION}|UNLIMITED",
        "must be a positive whole number of s, m, h or d, at most 9999d, as in 2d, or UNLIMITED",
        32,
    ),
]

MaxUnavailable = Annotated[
    str,
    Pattern(r"[1-9][0-9]{0,4}|[1-9][0-9]?%|100%", "must be a positive number of nodes or a percentage, as in 10%", 32),
]

ConfValue = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9_.,:;=/@%+*()\[\]|!?&^~<>{}-]+",
        "must be one value without spaces, quotes, '#', '\\' or line breaks:"
        " slurm.conf reads what follows a space as another key",
        1024,
    ),
]
"""The right-hand side of one slurm.conf key. Slurm splits lines at white space, so none is allowed."""

DnsName = Annotated[
    str,
    Pattern(
        r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*",
        "must be a DNS name: lower-case letters, digits, '-' or '.', beginning and ending with a letter or digit",
        253,
    ),
]

ShellPath = Annotated[str, Pattern(r"/[A-Za-z0-9_./-]+", "must be an absolute path", 127)]

DevicePrefix = Annotated[
    str, Pattern(r"/dev/[A-Za-z0-9_/-]+", "must be a path below /dev, as in /dev/nvidia: a number follows it", 64)
]

ResourceName = Annotated[
    str,
    Pattern(
        r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*",
        "must be an extended resource, as in nvidia.com/gpu",
        128,
    ),
]

Registry = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9][A-Za-z0-9._-]*(?::[0-9]+)?(?:/[a-z0-9._-]+)*",
        "must be a registry and a path in front of the image names, as in registry.example.com:5000/slurm",
        253,
    ),
]

OverSubscribe = Annotated[
    str,
    Pattern(
        r"NO|EXCLUSIVE|(?:YES|FORCE)(?::[1-9][0-9]{0,3})?",
        "must be NO, EXCLUSIVE, YES or FORCE, the last two with a number of jobs if wanted, as in FORCE:4",
        16,
    ),
]

ImageReference = Annotated[
    str,
    Pattern(
        r"[A-Za-z0-9][A-Za-z0-9._-]*(?::[0-9]+)?(?:/[a-z0-9._-]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
        r"(?:@sha256:[0-9a-f]{64})?",
        "must be an image with a tag or a digest, as in registry.example.com:5000/slurm/slurmd-cuda:26.05",
        400,
    ),
]

LabelValue = Annotated[
    str,
    Pattern(
        r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?",
        "must be a label's value: letters, digits, '.', '-' or '_', beginning and ending with a letter or digit",
        63,
    ),
]

QUANTITY: Final = Pattern(
    r"[0-9]+(?:\.[0-9]+)?(?:m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?", "must be a Kubernetes quantity, as in 500m, 2 or 4Gi", 32
)

_KEY_FIELDS: Final = {
    "ssh-ed25519": 2,
    "ssh-rsa": 3,
    "ecdsa-sha2-nistp256": 3,
    "ecdsa-sha2-nistp384": 3,
    "ecdsa-sha2-nistp521": 3,
    "sk-ssh-ed25519@openssh.com": 3,
    "sk-ecdsa-sha2-nistp256@openssh.com": 4,
}
"""Kind of key to the number of fields in its body."""

_ED25519_LENGTH: Final = len("ssh-ed25519 ") + 68


def _check_key_body(line: str) -> str:
    """Refuse a key whose base64 body is not exactly what its first word promises.

    An OpenSSH public key is ``algorithm base64 [comment]``. The body is a row of length-prefixed fields, the first of
    which is the algorithm again (RFC 4253, section 6.6; RFC 8709).
    """
    algorithm, body = line.split(" ")[:2]
    try:
        blob = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("is not an OpenSSH public key: its second word is not base64") from error
    fields: list[bytes] = []
    rest = blob
    while rest:
        length = int.from_bytes(rest[:4], "big")
        fields.append(rest[4 : 4 + length])
        if len(rest) < 4 + length:
            raise ValueError("is not an OpenSSH public key: its body is cut off")
        rest = rest[4 + length :]
    if fields[0] != algorithm.encode() or len(fields) != _KEY_FIELDS[algorithm]:
        raise ValueError("is not an OpenSSH public key: its body does not belong to its algorithm")
    return line


def _wrong_ed25519_length(line: str) -> bool:
    body_ends = len(line) == _ED25519_LENGTH or line[_ED25519_LENGTH : _ED25519_LENGTH + 1] == " "
    return line.startswith("ssh-ed25519 ") and not body_ends


SshKey = Annotated[
    str,
    Check(
        " || ".join(f"self.startsWith('{kind} AAAA')" for kind in _KEY_FIELDS),
        "must be one OpenSSH public key, as ssh-keygen writes it: 'ssh-ed25519 AAAA… comment'",
        lambda line: not line.startswith(tuple(f"{kind} AAAA" for kind in _KEY_FIELDS)),
    ),
    Check(
        f"!self.startsWith('ssh-ed25519 ') || self.size() == {_ED25519_LENGTH}"
        f" || (self.size() > {_ED25519_LENGTH} && self.substring({_ED25519_LENGTH}, {_ED25519_LENGTH + 1}) == ' ')",
        "is not an OpenSSH public key: its body is cut off or too long",
        _wrong_ed25519_length,
    ),
    Check(
        r"!self.contains('\n') && !self.contains('\r')",
        "must be one key: it contains a line break",
        lambda line: "\n" in line or "\r" in line,
    ),
    Pattern(
        r"[a-z0-9@.-]+ AAAA[A-Za-z0-9+/]+={0,2}(?: [ -~]*)?",
        "must be an OpenSSH public key: algorithm, base64 and a comment in ASCII",
        1500,
        costly=True,
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


@functools.lru_cache(maxsize=1 << 17)
def split_node_name(name: str) -> tuple[str, int] | None:
    """Split a Slurm node name into pool and ordinal, or return None for a name that no pool makes."""
    pool, _, number = name.rpartition("-")
    if not ("a" <= pool[:1] <= "z") or not number.isdecimal() or (number[0] == "0" and number != "0"):
        return None
    return pool, int(number)
