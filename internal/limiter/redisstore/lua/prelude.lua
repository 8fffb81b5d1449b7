-- What all files of the script use. They are one script, in the order that script.go gives.
--
-- An algorithm is the pure functions of its Go file; a state is handed round as its three numbers. Its
-- function limit prepares, once for all counters of a limit, what the others take first: the constants of
-- the limit and the time t, in ticks as all times.

local floor, ceil, max, min, fmod = math.floor, math.ceil, math.max, math.min, math.fmod
local format, match, concat, tonumber = string.format, string.match, table.concat, tonumber
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

