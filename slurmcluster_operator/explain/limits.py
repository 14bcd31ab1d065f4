"""Slurm's words for limits of accounting (``QOSMaxGRESPerUser``), in ours."""

from __future__ import annotations

import re

_WHAT = {
    "cpu": "CPUs",
    "gres": "GPUs (or other GRES)",
    "mem": "memory",
    "memory": "memory",
    "node": "nodes",
    "job": "running jobs",
    "jobs": "running jobs",
    "submitjob": "submitted jobs",
    "submitjobs": "submitted jobs",
    "wall": "run time",
    "wallduration": "run time",
    "billing": "billing units",
    "license": "licenses",
    "energy": "energy",
    "bb": "burst buffer space",
    "unknown": "some resource",
}
_WHOSE = {
    "User": "of one user at the same time",
    "Account": "of one account at the same time",
    "Job": "of one job",
    "Node": "of one job on one node",
}
_PATTERN = re.compile(
    r"(?P<who>Assoc|QOS)?(?P<kind>Grp|Max|Min)(?P<what>[A-Za-z]+?)"
    r"(?P<minutes>RunMinutes|RunMins|Minutes)?(?:Per(?P<whose>User|Account|Job|Node))?(?:Limit|NotSatisfied)?"
)


def in_words(reason: str, account: str, qos: str) -> str | None:
    """Return the limit that a reason names, or None when it names none."""
    match = _PATTERN.fullmatch(reason)
    if match is None or match["what"].lower() not in _WHAT:
        return None
    what = _WHAT[match["what"].lower()]
    if match["minutes"]:
        what = f"minutes of {what}" + (" that running jobs may still use" if match["minutes"].startswith("Run") else "")
    by_qos = match["who"] == "QOS" or (match["who"] is None and match["whose"] is not None)
    holder = f"QOS {qos or 'of the job'}" if by_qos else f"account {account or 'of the job'}"
    scope = _WHOSE.get(match["whose"] or "", "of all its jobs together" if match["kind"] == "Grp" else "of one user")
    if match["kind"] == "Min":
        return f"The least {what} {scope} that {holder} demands ({reason})"
    return f"The limit of {holder} on {what} {scope} ({reason})"


def by_itself(reason: str) -> bool:
    """Tell whether the job starts once other jobs have ended; else it has to be changed itself."""
    return not re.search(r"PerJob|PerNode|Min(?!utes)|AssocMax(Wall|Node|Cpu|CPU)", reason)
