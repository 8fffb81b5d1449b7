-- Sliding windows, as slidingwindow.go counts them. State: start of the current window, units used in
-- it, units used in the one before.

local sliding_window = {
  constants = { "period", "amount", "most" },

  roll = function(state, limit, t)
    local start = t - fmod(t, limit.period)
    if start == state.at + limit.period then
      state.at, state.used, state.prev = start, 0, state.used
    elseif start > state.at then
      state.at, state.used, state.prev = start, 0, 0
    end
  end,

  fits = function(state, limit, t, cost)
    local period = limit.period
    local rest = min(state.at + period - t, period)
    return state.prev * rest + (state.used + cost) * period <= limit.amount * period
  end,

  take = fixed_window.take,
  give = fixed_window.give,

  expiry = function(state, limit)
    if state.used > 0 then
      return state.at + 2 * limit.period
    elseif state.prev > 0 then
      return state.at + limit.period
    end
    return state.at
  end,
}
