-- What every script begins with: the time.
--
-- ARGV[3]  nothing, or empty: the time is that of Redis; or the time of a caller, in microseconds since the epoch, and if
--          callers have several clocks, a blank and "several"
--
-- A state from after now is left by a clock that then stepped back, and is brought back to now. Not so with
-- several clocks, of which any may be wrong: to bring back what one of them says for another one, and on again,
-- would admit a limit each time. There the newest time that a counter has seen holds for it, and counters
-- live SPARE longer, so that those behind still find what those ahead have seen.

local tonumber, unpack, byte, format = tonumber, unpack, string.byte, string.format
local call, pcall, KEYS, ARGV = redis.call, redis.pcall, KEYS, ARGV

local MILLION = 1000000
local HIT, LAST = 14, 16 -- of a request's bytes, see decide.lua
local CHUNK = 1024 -- keys per MGET: unpack can return some thousand values only

-- First of all, so that no counter expires before its time: Redis 7.2 and later count PX from the time that TIME
-- says, which stands still during a script; older ones from when SET runs, which is later.
local now, several
if ARGV[3] and ARGV[3] ~= "" then
  now, several = string.match(ARGV[3], "^(%d+) ?(%l*)$")
  now, several = tonumber(now), several ~= ""
else
  local time = call("TIME")
  now, several = time[1] * MILLION + time[2], false
end
