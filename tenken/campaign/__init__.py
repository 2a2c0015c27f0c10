"""Campaigns: tests of one to ten thousand nodes that identify the faulty ones. The entry point is
`tenken.commands.campaign`.
"""
