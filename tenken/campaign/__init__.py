"""Campaigns: one to ten thousand nodes, and which one is bad. `tenken.commands.campaign` is the way in."""
