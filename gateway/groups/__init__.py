"""Consumer groups: which member reads which partition, and how far each group has read (docs/http-api.md section 7).

================  ==========================================================================================
``calls``         what the routes call: join, leave, describe, delete; poll, which commits and reads in one call
``offsets``       committed offsets: written, read, reset, and how large their lag is
``membership``    groups as their coordinator has them: claims, sessions, the next row
``classic``       groups whose members assign partitions among themselves: Kafka's classic protocol
``subscription``  which topics members subscribe to
``assignment``    which member gets which partition; pure
``bounds``        what a gateway holds of groups, how long it waits
``metrics``       metrics of groups
================  ==========================================================================================

A join: the route parses it. ``Groups.join`` has the group claimed (``membership.coordinator``). The group's next row takes the
member in (``membership.live_group``) and is committed (``gateway.system_tables.groups``). The committed row is the answer.

No HTTP is known here, nor how transactions are decided.
"""
