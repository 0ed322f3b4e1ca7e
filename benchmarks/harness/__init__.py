"""What all benchmarks share: they start stores and gateways, apply a load, count CPU and requests, and print tables here.

``stores`` and ``processes`` start what is measured, ``load``, ``scenario`` and ``client`` what loads it. ``cpu``, ``metrics`` and
``trace`` count. ``pairs`` takes turns with another tree of the source. ``options`` and ``report`` are the command line and its
answer. Nothing here imports a benchmark.
"""
