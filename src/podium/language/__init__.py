"""From workflow text to typed values, with the position of every problem."""
