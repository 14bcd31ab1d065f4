"""Programs on the host that still speak to a cluster which is going away.

When the bridge goes, the way to the cluster's addresses would be the default route: whoever asks on would send packets
into the world. So the way is closed first (`network.remove_bridge` leaves routes that refuse), and opened again only
when nobody asks any more. To find out who does, three steps:

1. The connections that there are get reset, as by a machine that reboots: who had no more to ask than that, is gone.
2. While `down` clears away the rest, the API server's address swallows packets in place of refusing them
   (`network.swallow`). A program that asks now and then, a loop around kubectl for one, hangs in its next attempt and
   can be seen; refused at once it would show up only by luck.
3. When nobody has been seen for three seconds, most of which the clearing away takes, the addresses are given up. Who
   goes on asking is named after twelve, and the routes that refuse stay; another `down` looks again.
"""

import re
import time

from localkube import network
from localkube.console import say
from localkube.layout import State
from localkube.plan import Instance
from localkube.shell import run, succeeds

# Longer than `watch` waits between two runs of a command.
_QUIET_SECONDS = 3
_PATIENCE_SECONDS = 12
_PAUSE = 0.2
_USER = re.compile(r'\("(?P<program>[^"]+)",pid=(?P<pid>\d+),')


def turn_away(state: State) -> float:
    """End the host's connections to a cluster, let new ones hang, and return since when they do."""
    # A kernel that cannot end connections leaves them to `wait_for_end`.
    succeeds(["ss", "--kill", "--tcp", _filter(state.instance)])
    network.swallow(state.instance, state.root)
    return time.monotonic()


def wait_for_end(instance: Instance, begin: float) -> list[str]:
    """Wait until nobody has asked for a while; return the programs that go on asking in spite of long patience."""
    quiet_since, known = begin, list[str]()
    while (now := time.monotonic()) < quiet_since + _QUIET_SECONDS:
        asking = _clients(instance)
        if asking and now > begin + _PATIENCE_SECONDS:
            return asking
        if asking and not known:
            say(f"waiting for those who still ask for the cluster: {', '.join(asking)}")
        quiet_since, known = (now, asking) if asking else (quiet_since, known)
        time.sleep(_PAUSE)
    return []


def names(listed: str) -> list[str]:
    """Return the programs in the output of `ss`, one entry a process; connections without one stand for themselves."""
    found = []
    for line in listed.splitlines():
        users = [f"{user['program']} (pid {user['pid']})" for user in _USER.finditer(line)]
        found += users or [f"a connection to {line.split()[4]}"]
    return list(dict.fromkeys(found))


def _clients(instance: Instance) -> list[str]:
    return names(run(["ss", "--no-header", "--tcp", "--numeric", "--processes", _filter(instance)]))


def _filter(instance: Instance) -> str:
    return " or ".join(f"dst {cidr}" for cidr in instance.cidrs)
