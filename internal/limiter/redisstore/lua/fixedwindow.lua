-- Fixed windows, as fixedwindow.go counts them. State: start of the window, units used in it.

local fixed_window = {
  constants = { "period", "amount", "most" },

  roll = function(state, limit, t)
    if t >= state.at + limit.period then
      state.at, state.used = t - fmod(t, limit.period), 0
    end
  end,

  fits = function(state, limit, _, cost)
    return state.used + cost <= limit.amount
  end,

  take = function(state, limit, _, cost)
    state.used = min(state.used + cost, limit.most)
  end,

  give = function(state, _, _, cost)
    state.used = max(state.used - cost, 0)
  end,

  expiry = function(state, limit)
    return state.used > 0 and state.at + limit.period or state.at
  end,
}

-- The same with windows that start with their first hit.
local first_hit_window = {
  constants = fixed_window.constants,

  roll = function(state, limit, t)
    if state.used == 0 then
      state.at = max(t, state.at)
    elseif t >= state.at + limit.period then
      state.at, state.used = t, 0
    end
  end,

  fits = fixed_window.fits,
  take = fixed_window.take,
  give = fixed_window.give,
  expiry = fixed_window.expiry,
}
