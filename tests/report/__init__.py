"""Pages and diagrams."""
