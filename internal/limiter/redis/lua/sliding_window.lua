-- Sliding windows, as limiter/slidingwindow.go counts them. State: number of the current window, units used in
-- it, units used in the one before.

-- n * rest / period, rounded up, for an n of which the products that share takes would not be exact, and a
-- rest of at most the period. It goes through the bits of n from the highest on, and doubles what it has.
local function large_share(n, rest, period)
  local units, part = 0, 0
  for bit = 52, 0, -1 do
    units, part = 2 * units, 2 * part
    if part >= period then
      units, part = units + 1, part - period
    end
    if n >= 2 ^ bit then
      n, part = n - 2 ^ bit, part + rest
      if part >= period then
        units, part = units + 1, part - period
      end
    end
  end
  return part > 0 and units + 1 or units
end

algorithms.sliding_window = {
  limit = function(t, period, amount, simple)
    local current = (t - fmod(t, period)) / period
    return {
      t = t, period = period, seconds = period / SECOND, amount = amount, grid = period,
      most = EXACT / 2, most_prev = EXACT / 2, simple = simple, current = current, newest = current,
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

  back = fixed.back,

  fits = function(limit, cost, at, used, prev)
    local covered, period = 0, limit.period
    local rest = min((at + 1) * period - limit.t, period)
    if prev > limit.simple then
      covered = large_share(prev, rest, period)
    elseif prev > 0 then
      local units, part = share(prev, rest, limit.seconds)
      covered = units + ceil(part / period)
    end
    return covered + used + cost <= limit.amount
  end,

  take = fixed.take,
  give = fixed.give,

  give_back = function(_, cost, at, used, prev, charged_at, charged_used, charged_prev, then_at)
    if at ~= charged_at then
      return
    elseif charged_at ~= then_at then -- the window of the charge is the previous one by now
      return used, max(prev - min(cost, charged_prev), 0)
    end
    return max(used - min(cost, charged_used), 0), prev
  end,

  left = function(limit, at, used)
    local rest = (at + 1) * limit.period - limit.t
    return used > 0 and rest + limit.period or rest
  end,
}

