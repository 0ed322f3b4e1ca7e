"""Work that runs beside requests, or in parallel for one of them. Nothing here knows what the work is.

``supervised``  background work, round after round, which no defect ends; pauses before a process is started again
``parallel``    one call for each of many items, a bounded number at a time
``deadlines``   which of many things is due next
"""
