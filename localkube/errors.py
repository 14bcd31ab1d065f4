"""The one exception that the command line shows without a traceback."""


class LocalkubeError(Exception):
    """Something a person can act on: what went wrong, what to do next, and the log that tells why."""

    def __init__(self, problem: str, *, advice: str = "", log: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice
        self.log = log

    def __str__(self) -> str:
        """Show the log first, so that the problem and the advice stand last on the screen."""
        log = f"{self.log.rstrip()}\n\n" if self.log else ""
        advice = f"\n{self.advice}" if self.advice else ""
        return f"{log}{self.problem}{advice}"
