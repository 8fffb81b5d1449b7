-- Fixed windows of a calendar, as limiter/calendar.go counts them. State: start of the window in seconds, units used, 0.
--
-- The window and the next one are from who calls, because only Go knows the calendar. Which of them it is is for the
-- clock of Redis to say. If it is neither, nothing is decided: decide.lua replies NO_WINDOW.

algorithms.calendar = {
  limit = function(t, amount, start, next, last)
    if t < start or t >= last then
      return
    end
    local current = (t < next and start or next) / SECOND
    return {
      t = t, amount = amount, next = next, last = last, grid = SECOND, most = EXACT / 2, most_prev = 0,
      current = current, oldest = current, newest = (t - fmod(t, SECOND)) / SECOND,
    }
  end,

  roll = fixed.roll, back = fixed.back, fits = fixed.fits,
  take = fixed.take, give = fixed.give, give_back = fixed.give_back,

  left = function(limit, at)
    local start, next, last = at * SECOND, limit.next, limit.last
    if at < limit.oldest then
      return 0
    elseif start < last then
      return (start < next and next or last) - limit.t
    end
    return start + last - next - limit.t -- by several clocks, of which one is far ahead: about that
  end,
}

