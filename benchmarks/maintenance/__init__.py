"""What a long history costs with maintenance and without; the speed of maintenance, its memory; what a topic's state takes."""
