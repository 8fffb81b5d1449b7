-- Windows that start with the first hit, as limiter/fixedwindow.go counts them: fixed windows on a grid of microseconds.
-- Reads algorithms, fixed.

algorithms.first_hit = fixed
