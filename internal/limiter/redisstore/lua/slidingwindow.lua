-- Sliding windows, as slidingwindow.go counts them. State: number of the current window, units used in
-- it, units used in the one before.

local sliding_window = {
  limit = function(t, period, amount, most)
    local current = (t - fmod(t, period)) / period
    return {
      t = t, period = period, seconds = period / SECOND, amount = amount, grid = period,
      most = most, most_prev = most, current = current, oldest = current, lasting = true,
    }
  end,

  roll = function(limit, at, used, prev)
    local current = limit.current
    if at + 1 == current then
      return current, 0, used
    elseif at < current or used == 0 and prev == 0 then
      return current, 0, 0
    end
    return at, used, prev
  end,

  admit = function(limit, cost, wanted, at, used, prev)
    local covered = 0
    if prev > 0 then
      local period = limit.period
      local units, part = share(prev, min((at + 1) * period - limit.t, period), limit.seconds)
      covered = units + ceil(part / period)
    end
    if covered + used + wanted <= limit.amount then
      return used + cost, prev
    end
  end,

  take = fixed_window.take,
  give = fixed_window.give,

  left = function(limit, at, used)
    local rest = (at + 1) * limit.period - limit.t
    return used > 0 and rest + limit.period or rest
  end,
}

