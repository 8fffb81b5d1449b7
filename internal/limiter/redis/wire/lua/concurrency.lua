-- Limits of what is in flight, as limiter/concurrency.go counts them. State: when the holds were counted, how many
-- there were, 0. Which they are is in holds.lua.

algorithms.concurrency = {
  limit = function(period, amount)
    return { period = period, amount = amount, grid = 1, most = EXACT / 2, most_prev = 0, newest = now, holds = true }
  end,

  roll = function(limit, at, used) return now, at > now - limit.period and used or 0, 0 end,
  fits = fixed.fits, take = fixed.take, give = fixed.give,
}
