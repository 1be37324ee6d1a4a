"""Percent of peak by NKIBench's formula, where the problem is one of its."""

from __future__ import annotations

from attrs import evolve

from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.nkibench import BASIS, known_yardstick
from accelopt_lsp.nki.peak import percent_of_peak
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Job


def by_known_problem(profile: Profile, job: Job) -> Profile:
    """The profile with its percent of peak by the problem that the job's files are named after.

    Other jobs keep what they have, by the compulsory work of the kernel itself.
    """
    stems = [job.path.stem, *([] if job.reference is None else [job.reference.stem])]
    known = known_yardstick(stems)
    if known is None or not profile.latency_ms:
        return profile
    percent = percent_of_peak(profile.latency_ms, known, get_target(job.target), FLOAT32)
    return evolve(profile, percent_of_peak=percent, percent_of_peak_basis=BASIS)
