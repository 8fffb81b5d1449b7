-- Token buckets, as limiter/tokenbucket.go counts them. State: time of the state, units in the bucket, parts of one more
-- unit. A unit has as many parts as the period has microseconds.
-- Reads algorithms, share, now, fmod, ceil, SECOND, EXACT.

-- Limits a level to the brim. A level may be above the brim after the amount or the burst was lowered.
local function clamp(limit, used, prev)
  if used >= limit.brim then
    return limit.brim, 0
  end
  return used, prev
end

local function drain_time(limit, used, prev)
  local product = used * limit.price -- seconds times drain
  local rest = fmod(product, limit.drain)
  return (product - rest) / limit.drain * SECOND + ceil((rest * limit.divisor * SECOND + prev) / limit.amount)
end

-- Subtracts units and parts of one more unit from a level, but not below 0.
local function minus(limit, used, prev, units, parts)
  used, prev = used - units, prev - parts
  if prev < 0 then
    used, prev = used - 1, prev + limit.period
  end
  if used < 0 then
    return 0, 0
  end
  return used, prev
end

algorithms.token_bucket = {
  -- A unit drains in price / drain seconds, which equals period / amount.
  limit = function(period, amount, burst, divisor)
    local limit = {
      period = period, amount = amount, burst = burst, brim = burst + amount,
      divisor = divisor, price = period / SECOND / divisor, drain = amount / divisor,
      grid = 1, most = EXACT, most_prev = period - 1, newest = now,
    }
    limit.longest = drain_time(limit, limit.brim, 0)
    return limit
  end,

  roll = function(limit, at, used, prev)
    local elapsed = now - at
    if elapsed < 0 then
      return now, used, prev
    elseif elapsed >= limit.longest then -- for longer times, products would not be exact
      return now, 0, 0
    end
    used, prev = clamp(limit, used, prev)
    local units, part = share(limit.drain, elapsed, limit.price * SECOND)
    part = part * limit.divisor
    local parts = fmod(part, limit.period)
    return now, minus(limit, used, prev, units + (part - parts) / limit.period, parts)
  end,

  fits = function(limit, cost, _, used, prev) return used + (prev > 0 and 1 or 0) + cost <= limit.burst end,
  take = function(limit, cost, used, prev) return clamp(limit, used + cost, prev) end,

  give = function(limit, cost, used, prev)
    used, prev = clamp(limit, used, prev)
    return clamp(limit, minus(limit, used, prev, cost, 0))
  end,

  -- If part of the charge has drained, subtracts only the rest. A negative cost adds units.
  give_back = function(limit, cost, _, used, prev, _, charged_used, charged_prev)
    if charged_used >= cost then
      return limit.algorithm.give(limit, cost, used, prev)
    end
    return minus(limit, used, prev, charged_used, charged_prev)
  end,

  left = function(limit, at, used, prev) return at - now + drain_time(limit, used, prev) end,
}
