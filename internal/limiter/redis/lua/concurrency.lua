-- Limits of what is in flight, as concurrency.go counts them. State: when the holds were counted, how many there
-- were, 0. Which they are is in holds.lua, which only calls that meet them have use for.

if ARGV[4] then
  local like = algorithms.fixed_window

  algorithms.concurrency = {
    limit = function(t, period, amount)
      return {
        t = t, period = period, amount = amount, grid = 1, most = EXACT / 2, most_prev = 0, oldest = t, newest = t,
        holds = true,
      }
    end,

    roll = function(limit, at, used)
      if used > 0 and at > limit.t - limit.period then
        return limit.t, used, 0
      end
      return limit.t, 0, 0
    end,

    back = function(limit, _, used)
      return limit.t, used, 0
    end,

    admit = like.admit,
    take = like.take,
    give = like.give,

    give_back = function(_, cost, _, used, prev, _, charged_used)
      if charged_used > 0 then
        return max(used - cost, 0), prev
      end
    end,

    left = function(limit, at)
      return at + limit.period - limit.t
    end,
  }
end

