"""What is kept of who did what: denials, administration, vended credentials and failed logins, as records of ``__audit``.

``event``      one event, and its text
``trail``      events that wait to be written, within bounds
``topic``      the settings of the topic
``recording``  makes the topic, and appends the events to it

No route decides here what is an event: that is told by what serves the requests.
"""
