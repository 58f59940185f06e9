"""Large messages as parts: `split` makes header, fragments, trailer; `join` tells what is there."""
