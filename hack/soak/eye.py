"""The observer as its own process, seen from whoever started it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack import local


class Eye:
    """The observer's process, and what it told last."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.findings: dict[str, Any] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_blind(self) -> bool:
        """Whether it has missed something, or has ended before it was told to."""
        return "blind" in self.findings

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.findings = json.loads(line)
        status = self._process.wait()
        if status and not self.is_blind:
            self.findings = {**self.findings, "blind": f"its process has ended with status {status}"}

    def close(self) -> dict[str, Any]:
        """Let it end, and return its last report."""
        self._process.terminate()
        self._reader.join(60)
        if self._reader.is_alive():
            self.findings = {**self.findings, "blind": "it does not come to an end"}
        return self.findings


@contextmanager
def observing(cluster: str, record: Path, env: Mapping[str, str]) -> Iterator[Eye]:
    """Have everything observed, with this environment for kubectl; ``cluster`` is NAMESPACE.NAME."""
    words = [sys.executable, "-m", "hack.soak.observer", "--cluster", cluster, "--record", str(record)]
    with subprocess.Popen(
        words,
        cwd=local.ROOT,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Eye(process)
        finally:
            process.terminate()
