"""What texts become: programs between named arrays, straight-line or rolled; their calls."""
