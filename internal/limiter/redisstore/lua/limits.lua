-- Reads what the arguments of every script begin with:
--
-- ARGV[1]  empty: the time is that of Redis; or the time of a caller, in microseconds since the epoch, a blank
--          and whether all callers have "one" clock or "several"
-- ARGV[2]  the limits that are met, for each:
--            the word of its algorithm
--            four integers, the constants of the algorithm, see its function limit; 0 where it has fewer
--          What follows names them by their numbers, from 1 on.
--
-- A state from after now is left by a clock that then stepped back, and is brought back to now. Not so with
-- several clocks, of which any may be wrong: to bring back what one of them says for another one, and on again,
-- would admit a limit each time. There the newest time that a counter has seen holds for it, and counters
-- live SPARE longer, so that those behind still find what those ahead have seen.
--
-- Every number is an integer below 2^53, up to which those of Lua are exact.

local SPARE = 60000 -- milliseconds

-- First of all, because Redis reckons PX from the moment at which the script began.
local now, several, spare = nil, false, 0
if ARGV[1] == "" then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2]
else
  local time, clocks = match(ARGV[1], "^(%d+) (%l+)$")
  now, several = tonumber(time), clocks == "several"
  spare = several and SPARE or 0
end

local limits = {}
for word, a, b, c, d in gmatch(ARGV[2], "(%S+) (%d+) (%d+) (%d+) (%d+) ") do
  local algorithm = algorithms[word]
  local limit = algorithm.limit(now, tonumber(a), tonumber(b), tonumber(c), tonumber(d))
  limit.algorithm = algorithm
  if several then
    limit.newest = EXACT
  end
  limits[#limits + 1] = limit
end
