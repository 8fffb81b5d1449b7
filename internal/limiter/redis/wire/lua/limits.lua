-- Prepares the limits of a batch once for all counters.
-- ARGV[2]  before the semicolon: the limits; for each, the name of its algorithm, four integers for the algorithm's function
--          limit, and the length of its bans, if it has any. decide.lua reads the text after the semicolon.
-- Reply    the time and NO_WINDOW, if the time is outside of a calendar's windows; then nothing was done
-- Reads ARGV, match, gmatch, tonumber, algorithms, now, NO_WINDOW. Sets limits, text.

local limits_text, text = match(ARGV[2], "^([^;]*);(.*)$")
local limits = {}
for word, a, b, c, d, ban in gmatch(limits_text, "(%l%S*) (%d+) (%d+) (%d+) (%d+) (%d*) ?") do
  local algorithm = algorithms[word]
  local limit = algorithm.limit(tonumber(a), tonumber(b), tonumber(c), tonumber(d))
  if not limit then
    return { now, NO_WINDOW }
  end
  limit.algorithm, limit.ban = algorithm, ban ~= "" and now + ban
  limits[#limits + 1] = limit
end
