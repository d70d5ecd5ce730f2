"""Tables and figures of the VCube-PS thesis and the ICPP'18 paper on causal aggregation."""
