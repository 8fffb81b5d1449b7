-- The limits of a batch, prepared once for what follows.
--
-- ARGV[2]  the limits that the batch meets, up to a semicolon: of each the word of its algorithm, four integers for the
--          function limit of that, and the length of its bans, if it has any; the rest, text, is for decide.lua
-- Reply    if the windows of a calendar are not those of now: the time and NO_WINDOW. Nothing is done then.

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
