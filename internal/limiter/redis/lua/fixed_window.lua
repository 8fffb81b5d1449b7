-- Fixed windows, as fixedwindow.go counts them. State: start of the window in grids, units used in it, 0.

algorithms.fixed_window = {
  limit = function(t, period, amount, grid)
    local current = (t - fmod(t, grid)) / grid
    return {
      t = t, period = period, amount = amount, grid = grid, most = EXACT / 2, most_prev = 0, lasting = true,
      current = current, oldest = current + 1 - period / grid, newest = current,
    }
  end,

  -- The state as of now.
  roll = function(limit, at, used)
    if used > 0 and at >= limit.oldest then
      return at, used, 0
    end
    return limit.current, 0, 0
  end,

  -- The state as of now, if it is a used one from after now.
  back = function(limit, _, used)
    return limit.current, used, 0
  end,

  -- What is used after a hit, nothing if the hit does not fit.
  admit = function(limit, cost, wanted, _, used)
    if used + wanted <= limit.amount then
      return used + cost, 0
    end
  end,

  take = function(limit, cost, used, prev)
    return min(used + cost, limit.most), prev
  end,

  give = function(_, cost, used, prev)
    return max(used - cost, 0), prev
  end,

  -- What is used once a cost is given back that was charged earlier, nothing if nothing is left of that. The state
  -- that the charge left comes last, as of now, and with the at that it had then.
  give_back = function(_, cost, at, used, prev, charged_at, charged_used)
    if at == charged_at then
      return max(used - min(cost, charged_used), 0), prev
    end
  end,

  -- The time until the state is as good as unused.
  left = function(limit, at)
    return at * limit.grid + limit.period - limit.t
  end,
}

