"""Figures of Kim and Ahn on gossip with immediate predecessors."""
