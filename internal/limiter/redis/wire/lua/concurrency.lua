-- Limits of requests in flight, as limiter/concurrency.go counts them. State: time of the count or, if earlier, of the
-- newest hold; number of holds; 0. See holds.lua for the holds.
-- Reads algorithms, fixed, now, EXACT.

algorithms.concurrency = {
  limit = function(period, amount)
    return { period = period, amount = amount, grid = 1, most = EXACT / 2, most_prev = 0, newest = now, holds = true }
  end,

  roll = function(limit, at, used) return now, at > now - limit.period and used or 0, 0 end,
  fits = fixed.fits, take = fixed.take, give = fixed.give,
}
