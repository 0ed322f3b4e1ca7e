"""Which member gets which partition, and the group's next row by that. Pure: nothing waits here, and no clock is read."""
