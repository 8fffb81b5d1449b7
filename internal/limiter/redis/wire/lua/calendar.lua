-- Fixed windows of a calendar, as limiter/fixedwindow.go counts them. State: start of the window in seconds, units used, 0.
-- Reads algorithms, fixed, now, fmod, SECOND, EXACT.
-- Lua does not know the calendar, so the caller passes two windows, and the clock of Redis chooses between them. If the
-- time is in neither, nothing is decided: limits.lua replies NO_WINDOW.

algorithms.calendar = {
  limit = function(amount, start, next, last)
    if now < start or now >= last then
      return
    end
    local current = (now < next and start or next) / SECOND
    return {
      amount = amount, grid = SECOND, most = EXACT / 2, most_prev = 0, ends = now < next and next or last,
      current = current, oldest = current, newest = (now - fmod(now, SECOND)) / SECOND,
    }
  end,

  roll = fixed.roll, fits = fixed.fits, take = fixed.take, give = fixed.give, give_back = fixed.give_back,
  left = function(limit, at) return at < limit.oldest and 0 or limit.ends - now end,
}
