-- The limits of a batch, prepared once for what follows.
--
-- ARGV[2]  the limits that the batch meets, up to a semicolon, for each of them
--            the word of its algorithm
--            four integers, the constants of the algorithm, see its function limit; 0 where it has fewer
--            if it has bans, their length, in microseconds
--          The rest, text, is for decide.lua.
-- Reply    if the windows of a calendar are not those of now: the time and NO_WINDOW. Nothing is done then.

local limits_text, text = match(ARGV[2], "^([^;]*);(.*)$")
local limits = {}
for word, a, b, c, d, ban in gmatch(limits_text, "(%l%S*) (%d+) (%d+) (%d+) (%d+) (%d*) ?") do
  local algorithm = algorithms[word]
  local limit = algorithm.limit(now, tonumber(a), tonumber(b), tonumber(c), tonumber(d))
  if not limit then
    return { now, NO_WINDOW }
  end
  limit.algorithm = algorithm
  if ban ~= "" then
    limit.ban = now + ban
    limit.longest_ban = several and EXACT or limit.ban
  end
  limit.newest = several and EXACT or limit.newest
  limits[#limits + 1] = limit
end

