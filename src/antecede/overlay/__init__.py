"""Overlays: who forwards to whom. Pure functions of the participants; nothing here is stored or sent."""
