"""Publish/subscribe whose messages arrive after what they depend on."""
