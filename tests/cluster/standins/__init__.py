"""Stand-ins for schedulers that cannot be had here: they really run the job scripts.

Each takes the options, prints the texts and knows the states that are on record for its sites, and refuses all else,
so that a script that passes here is one that the site's documentation backs. What a real one was seen to do wrong is
a fault that a test switches on.
"""
