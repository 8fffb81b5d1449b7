-- Fixed windows, as limiter/fixedwindow.go counts them. State: start of the window in units of grid, units used, 0.
-- Reads algorithms, now, fmod, min, max, EXACT. Sets fixed.

algorithms.fixed_window = {
  limit = function(period, amount, grid)
    local current = (now - fmod(now, grid)) / grid
    return {
      period = period, amount = amount, grid = grid, most = EXACT / 2, most_prev = 0,
      current = current, oldest = current + 1 - period / grid, newest = current,
    }
  end,

  roll = function(limit, at, used)
    if used == 0 or at < limit.oldest then
      return limit.current, 0, 0
    end
    return at <= limit.newest and at or limit.current, used, 0
  end,

  fits = function(limit, cost, _, used) return used + cost <= limit.amount end,
  take = function(limit, cost, used, prev) return min(used + cost, limit.most), prev end,
  give = function(_, cost, used, prev) return max(used - cost, 0), prev end,

  -- A negative cost adds units. The last arguments are the state after the charge, rolled to now, and its at before rolling.
  give_back = function(limit, cost, at, used, prev, charged_at, charged_used)
    return at == charged_at and min(max(used - min(cost, charged_used), 0), limit.most) or used, prev
  end,

  -- Returns the time until the state equals an unused one.
  left = function(limit, at) return at * limit.grid + limit.period - now end,
}

local fixed = algorithms.fixed_window -- for the algorithms that share its functions
