"""Stand-ins for schedulers that cannot be installed here: they really run the job scripts.

Each accepts the options, prints the texts and has the states that are documented for its sites, and refuses everything
else, so that a script that passes here agrees with the site's documentation. Each observed fault of a real scheduler is
a switch for tests.
"""
