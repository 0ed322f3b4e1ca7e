"""The audit trail: denials, administration, vended credentials, signatures and failed logins, as records of ``__audit``.

``event``      one event, and its text
``combined``   events that may be very many, as fewer events with their number
``trail``      events that wait to be written, within bounds
``recorder``   creates the topic, and appends the events to it

Nothing here decides what is an event: the code that serves the requests does.
"""
