"""Why a job is not running, in words. Only the standard library: login pods carry a copy of this folder."""

from .job import explain, explain_all

__all__ = ["explain", "explain_all"]
