-- Limits of what is in flight, as limiter/concurrency.go counts them. State: when the holds were counted, how many
-- there were, 0. Which they are is in holds.lua.

algorithms.concurrency = {
  limit = function(t, period, amount)
    return {
      t = t, period = period, amount = amount, grid = 1, most = EXACT / 2, most_prev = 0, newest = t, holds = true,
    }
  end,

  roll = function(limit, at, used)
    if used > 0 and at > limit.t - limit.period then
      return limit.t, used, 0
    end
    return limit.t, 0, 0
  end,

  back = algorithms.token_bucket.back,
  fits = fixed.fits, take = fixed.take, give = fixed.give,

  give_back = function(_, cost, _, used, prev, _, charged_used)
    if charged_used > 0 then
      return max(used - cost, 0), prev
    end
  end,

  left = function(limit, at)
    return at + limit.period - limit.t
  end,
}

