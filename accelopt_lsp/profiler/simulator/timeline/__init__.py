"""The timeline model: from issued instructions to when they run, and what that costs.

Passes, each in a module of its own and each a rule of :mod:`policy`: joining loops
(:mod:`fusing`), loading large tensors at each use (:mod:`streaming`), merging repeated work
(:mod:`merging`), what the compiler adds (:mod:`shifting`, :mod:`constants`), splitting tiles
(:mod:`splitting`), using idle PSUM (:mod:`placement`), evicting what does not fit
(:mod:`spills`), placing tiles (:mod:`slots`), finding dependencies (:mod:`dependencies`), running
the engines (:mod:`scheduler`, :mod:`machine`, :mod:`dma`). Reports: :mod:`counters`,
:mod:`critical`, :mod:`attribution`, :mod:`whatif`, :mod:`uncertainty`, :mod:`report`.
"""

from __future__ import annotations

from accelopt_lsp.profiler.simulator.timeline.report import profile_from
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule, simulate
from accelopt_lsp.profiler.simulator.timeline.whatif import what_ifs

__all__ = ["Schedule", "profile_from", "simulate", "what_ifs"]
