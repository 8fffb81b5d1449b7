-- Token buckets, as tokenbucket.go counts them. State: when the bucket was like this, units in it, the
-- part of one more in units per period.

local function level_of(limit, used, prev)
  return min(used * limit.price + ceil(prev / limit.grain), limit.brim)
end

-- The numbers of a state that tell its level.
local function used_of(limit, level)
  local part = fmod(level, limit.price)
  return (level - part) / limit.price, part * limit.grain
end

local token_bucket = {
  limit = function(t, price, drain, amount, burst)
    return {
      t = t, price = price, drain = drain, grain = amount / drain, grid = 1, oldest = t,
      full = burst * price, brim = (burst + amount) * price, most = 2 ^ 53,
    }
  end,

  roll = function(limit, at, used, prev)
    local elapsed = max(limit.t - at, 0)
    local level = level_of(limit, used, prev) - elapsed * limit.drain -- far below 0 if not exact
    if level > 0 then
      return at + elapsed, used_of(limit, level)
    end
    return limit.t, 0, 0
  end,

  admit = function(limit, cost, wanted, _, used, prev)
    local level = level_of(limit, used, prev)
    if level + wanted * limit.price <= limit.full then
      return used_of(limit, level + cost * limit.price)
    end
  end,

  take = function(limit, cost, used, prev)
    return used_of(limit, min(level_of(limit, used, prev) + cost * limit.price, limit.brim))
  end,

  give = function(limit, cost, used, prev)
    return used_of(limit, max(level_of(limit, used, prev) - cost * limit.price, 0))
  end,

  expiry = function(limit, at, used, prev)
    return at + ceil(level_of(limit, used, prev) / limit.drain)
  end,
}

