-- Reads what the arguments of every script begin with:
--
-- ARGV[1]  the time in microseconds since the epoch; empty: the time of Redis
-- ARGV[2]  the limits that are met, as five integers for each:
--            kind    of its algorithm: 0 fixed window, 1 sliding window, 2 token bucket
--            four constants of the algorithm, see its function limit; 0 where it has fewer
--          What follows names them by their numbers, from 1 on.
--
-- Every number is an integer below 2^53, up to which those of Lua are exact.

local algorithms = { [0] = fixed_window, sliding_window, token_bucket }

-- First of all, because Redis reckons PX from the moment at which the script began.
local now = tonumber(ARGV[1])
if not now then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2]
end

local limits = {}
for kind, a, b, c, d in gmatch(ARGV[2], "(%d+) (%d+) (%d+) (%d+) (%d+) ") do
  local algorithm = algorithms[tonumber(kind)]
  local limit = algorithm.limit(now, tonumber(a), tonumber(b), tonumber(c), tonumber(d))
  limit.algorithm = algorithm
  limits[#limits + 1] = limit
end
