"""The history of metrics: what each gateway counted, as records of ``__metrics``, and series made of them.

``interval``   what one gateway counted in a span of time, and how spans are added up
``rollups``    minutes, quarter-hours and hours of one gateway that are still to be written
``topic``      the topic's settings and its records
``loop_delay`` how late the event loop is
``recorder``   takes the minutes and appends them
``series``     adds up intervals of many gateways to series over equal steps
``reading``    reads the intervals of a time from the topic; both halves of the history together

No metric is defined here: the numbers are those of ``/metrics``.
"""
