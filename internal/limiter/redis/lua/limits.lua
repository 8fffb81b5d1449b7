-- Reads the limits that a batch meets:
--
-- ARGV[2]  for each of them
--            the word of its algorithm
--            four integers, the constants of the algorithm, see its function limit; 0 where it has fewer
--            if it has bans, their length, in microseconds
--          and then a semicolon. What follows names the limits by their numbers, from 1 on.
--
-- Reply    integers, if the windows of a calendar are not those of now: the time and NO_WINDOW. Nothing is done then.
--
-- Every number is an integer below 2^53, up to which those of Lua are exact.

local SPARE = 60000 -- milliseconds, see time.lua
local spare = several and SPARE or 0

local limits_text, rest = match(ARGV[2], "^([^;]*);(.*)$")
local limits, bans = {}, false -- and whether any of them has bans
for word, a, b, c, d, ban in gmatch(limits_text, "(%l%S*) (%d+) (%d+) (%d+) (%d+) (%d*) ?") do
  local algorithm = algorithms[word]
  local limit = algorithm.limit(now, tonumber(a), tonumber(b), tonumber(c), tonumber(d))
  if not limit then
    return { now, NO_WINDOW }
  end
  limit.algorithm = algorithm
  if ban ~= "" then
    bans, limit.ban = true, now + ban -- when one ends that begins now
    limit.longest_ban = limit.ban     -- when one ends at most
  end
  if several then
    limit.newest, limit.longest_ban = EXACT, EXACT
  end
  limits[#limits + 1] = limit
end
