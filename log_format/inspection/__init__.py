"""Looking at a store from outside: checks every record against the log, and finds what is wrong with a store.

Nothing here changes a topic, and no other package of the format imports this.
"""
