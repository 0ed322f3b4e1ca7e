"""What the gateway tells of itself: metrics and logs.

``metrics``         Prometheus metrics of requests
``histograms``      histograms in plain numbers, for what happens with each request or each flush
``workers_page``    the metrics of all workers behind one port
``structured_log``  the log, a line for each event

Metrics of one part are in that part's folder. What an operator sees of the last hour is ``gateway.monitoring``.
"""
