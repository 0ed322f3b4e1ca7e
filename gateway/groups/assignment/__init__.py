"""Which member gets which partition, and the group's next row. Pure: nothing waits here and no clock is read."""
