-- What all files of the script use. They are one script, in the order that script.go gives.
--
-- An algorithm is the pure functions of its Go file; a state is handed round as its three numbers. Its
-- function limit prepares, once for all counters of a limit, what the others take first: the constants of
-- the limit, the time t, in ticks as all times are, and
--   grid    what at counts, in ticks
--   most    the largest used and prev of a state
--   oldest  the smallest at of a used state that is as of now already, and need not be rolled

local floor, ceil, max, min, fmod = math.floor, math.ceil, math.max, math.min, math.fmod
local format, match, concat, tonumber = string.format, string.match, table.concat, tonumber
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

