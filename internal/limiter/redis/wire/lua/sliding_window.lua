-- Sliding windows, as limiter/slidingwindow.go counts them. State: number of the current window, units used in the current
-- window, units used in the previous window.
-- Reads algorithms, fixed, share, now, fmod, ceil, min, max, EXACT.

-- Returns n * rest / period as share does, for an n so large that the products in share would not be exact. rest is a time
-- of at most the period. Adds up the bits of n from the highest.
local function large_share(n, rest, period)
  local units, part = 0, 0
  local function add(more)
    part = part + more
    if part >= period then
      units, part = units + 1, part - period
    end
  end
  for bit = 52, 0, -1 do
    units = 2 * units
    add(part)
    if n >= 2 ^ bit then
      n = n - 2 ^ bit
      add(rest)
    end
  end
  return units, part
end

algorithms.sliding_window = {
  limit = function(period, amount, simple)
    local current = (now - fmod(now, period)) / period
    return {
      period = period, amount = amount, grid = period,
      most = EXACT / 2, most_prev = EXACT / 2, simple = simple, current = current, newest = current,
    }
  end,

  roll = function(limit, at, used, prev)
    local current = limit.current
    if at > current then
      return current, min(used + prev, limit.most), 0
    elseif at == current then
      return at, used, prev
    end
    return current, 0, at + 1 == current and used or 0
  end,

  fits = function(limit, cost, at, used, prev)
    if prev == 0 then
      return used + cost <= limit.amount
    end
    local period, product = limit.period, prev > limit.simple and large_share or share
    local units, part = product(prev, min((at + 1) * period - now, period), period)
    return units + ceil(part / period) + used + cost <= limit.amount
  end,

  take = fixed.take, give = fixed.give,
  give_back = function(limit, cost, at, used, prev, charged_at, charged_used, charged_prev, then_at)
    if at == charged_at and charged_at ~= then_at then -- the charge was in the window that is now the previous one
      return used, min(max(prev - min(cost, charged_prev), 0), limit.most)
    end
    return fixed.give_back(limit, cost, at, used, prev, charged_at, charged_used)
  end,

  left = function(limit, at, used) return (at + (used > 0 and 2 or 1)) * limit.period - now end,
}
