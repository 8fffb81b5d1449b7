-- Token buckets, as tokenbucket.go counts them. State: when the bucket will be empty, and used/drain
-- of a tick after that.

local function level_of(state, limit, t)
  return min((state.at - t) * limit.drain + state.used, limit.brim)
end

local function set_level(state, limit, t, level)
  state.used = fmod(level, limit.drain)
  state.at = t + (level - state.used) / limit.drain
end

local token_bucket = {
  constants = { "price", "drain", "full", "brim" },

  roll = function(state, _, t)
    if t > state.at then
      state.at, state.used = t, 0
    end
  end,

  fits = function(state, limit, t, cost)
    return level_of(state, limit, t) + cost * limit.price <= limit.full
  end,

  take = function(state, limit, t, cost)
    set_level(state, limit, t, min(level_of(state, limit, t) + cost * limit.price, limit.brim))
  end,

  give = function(state, limit, t, cost)
    set_level(state, limit, t, max(level_of(state, limit, t) - cost * limit.price, 0))
  end,

  expiry = function(state)
    return state.used > 0 and state.at + 1 or state.at
  end,
}
