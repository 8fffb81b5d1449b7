-- Reads the limits that a batch meets:
--
-- ARGV[2]  for each of them
--            the word of its algorithm
--            four integers, the constants of the algorithm, see its function limit; 0 where it has fewer
--          and then a semicolon. What follows names the limits by their numbers, from 1 on.
--
-- Every number is an integer below 2^53, up to which those of Lua are exact.

local SPARE = 60000 -- milliseconds, see time.lua
local spare = several and SPARE or 0

local limits_text, rest = match(ARGV[2], "^([^;]*);(.*)$")
local limits = {}
for word, a, b, c, d in gmatch(limits_text, "(%S+) (%d+) (%d+) (%d+) (%d+) ") do
  local algorithm = algorithms[word]
  local limit = algorithm.limit(now, tonumber(a), tonumber(b), tonumber(c), tonumber(d))
  limit.algorithm = algorithm
  if several then
    limit.newest = EXACT
  end
  limits[#limits + 1] = limit
end
