"""VCube's diagnosis: a failure detector by hierarchical tests."""

from antecede.protocols.diagnosis.diagnosed import Diagnosed
from antecede.protocols.diagnosis.packets import Probe, Reply
from antecede.protocols.diagnosis.process import Diagnosis
from antecede.protocols.diagnosis.records import Life

__all__ = ["Diagnosed", "Diagnosis", "Life", "Probe", "Reply"]
