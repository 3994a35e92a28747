"""Evidence against a promise that can be examined after every row.

================  =====================================================================================
`sequential`      the state of one test and of its change detector
`coverage`        hits of labelled rows against their exact law
`ranks`           rows without labels against the conformal rows
`counts`          evidence from counts alone, for classes and groups, and combined over many of them
`confidence`      intervals of the coverage that hold at all times; since when it has changed
================  =====================================================================================

The mathematics is in docs/evidence.md.
"""

from thermoset.monitor.evidence.confidence import Change, change_point, confidence_sequence, coverage_since
from thermoset.monitor.evidence.counts import closed, fixed_evidence, joint_evidence, part_evidence
from thermoset.monitor.evidence.coverage import CoverageTest, HitLaw
from thermoset.monitor.evidence.ranks import RankTest
from thermoset.monitor.evidence.sequential import Sequential

__all__ = [
    "Change",
    "CoverageTest",
    "HitLaw",
    "RankTest",
    "Sequential",
    "change_point",
    "closed",
    "confidence_sequence",
    "coverage_since",
    "fixed_evidence",
    "joint_evidence",
    "part_evidence",
]
