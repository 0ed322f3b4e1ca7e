"""Assignment of partitions to members, and a group's next row. Pure: nothing waits here and no clock is read."""
