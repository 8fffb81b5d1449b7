-- Windows that begin with the first hit, as limiter/fixedwindow.go counts them: those of a grid of microseconds.

algorithms.first_hit = fixed
