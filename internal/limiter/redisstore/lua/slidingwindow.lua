-- Sliding windows, as slidingwindow.go counts them. State: number of the current window, units used in
-- it, units used in the one before.

local sliding_window = {
  limit = function(t, period, amount, most)
    local current = (t - fmod(t, period)) / period
    return { t = t, period = period, amount = amount, grid = period, most = most, current = current, oldest = current }
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
    local period = limit.period
    local rest = min((at + 1) * period - limit.t, period)
    if prev * rest + (used + wanted) * period <= limit.amount * period then
      return used + cost, prev
    end
  end,

  take = fixed_window.take,
  give = fixed_window.give,

  expiry = function(limit, at, used)
    return (used > 0 and at + 2 or at + 1) * limit.period
  end,
}

